"""Sensor for DataLoaders: where they are built, the samples of each batch, and failures."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Any, Protocol

from torch import is_grad_enabled
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as torch_dataloader

from whence.sensors.calls import CallSensor
from whence.sensors.sensor import Complaints, Postponed, Sensor, hide_own_frames
from whence.source.sites import caller_frame, user_stack
from whence.tape.batches import Batch, LoaderBook, LoaderInfo, Lost
from whence.tape.indices import listed, packed
from whence.tape.randomness import Kept
from whence.torch_internals import LoaderIterator, WorkerIterator
from whence.weak_table import removing_ref


class Listener(Complaints, Protocol):
    loaders: LoaderBook
    calls: CallSensor

    def looking(self) -> AbstractContextManager[None]: ...
    def workers_started(self) -> None: ...
    def fetch_began(self) -> None: ...
    def fetch_ended(self) -> None: ...
    def batch_arrived(self, batch: Batch, data: Any) -> None: ...
    def plain_batch_arrived(
        self, info: LoaderInfo, indices: Sequence[Any] | None, data: Any
    ) -> None: ...
    def batches_passed(self, info: LoaderInfo, count: int) -> None: ...
    def epoch_began(self, info: LoaderInfo) -> None: ...
    def epoch_ended(self, info: LoaderInfo) -> None: ...
    def fetch_failed(
        self,
        info: LoaderInfo,
        indices: list[Any] | None,
        worker: int | None,
        streams: Kept,
        exception: Exception,
        lost: list[Lost],
    ) -> None: ...


class Round:
    """One iterator over a loader, and the batches that were requested and have not arrived yet."""

    __slots__ = (
        "arrived",
        "info",
        "is_plain",
        "is_quick",
        "iterator",
        "made_by",
        "passed",
        "sent",
        "streams",
        "tasks",
        "waiting",
        "workers",
    )

    def __init__(self, iterator: Any, info: LoaderInfo, rounds: dict[int, Round]) -> None:
        self.iterator = removing_ref(iterator, rounds)
        self.info = info
        self.sent: dict[int, Any] = {}
        """Indices from the sampler, by task number. Without workers there is one task at a time."""
        self.arrived = -1
        """The task that last left the queue shared by all workers."""
        self.made_by: dict[int, int] = {}
        """The worker that completed each task from the queue."""
        self.workers: Any = ()
        self.streams: Kept = ()
        """Random stream states before the current batch, if it is made in this process."""
        self.tasks: dict[int, Any] = {}
        """The iterator's own record of the tasks its workers still have to complete."""
        self.is_plain = info.gives_fresh_lists and not info.workers and not info.is_iterable
        """Each batch's indices come as a fresh list, followed at once by the batch."""
        self.waiting: tuple[Sequence[Any] | None, Any] = None, None
        """The indices and data of the last batch, until it is inspected."""
        self.passed = 0
        """Earlier batches that were not inspected."""
        self.is_quick = False
        """The loader is plain, and its samples draw no random numbers: nothing else is recorded."""
        self.judge()

    def judge(self) -> None:
        self.is_quick = self.is_plain and self.info.draws is not None and self.info.draws.are_none


class LoaderSensor(Sensor):
    """Wrap methods of PyTorch's loader while the sensor is on; batches pass through untouched."""

    name = "loader"
    sees = "data loaders"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self._rounds: dict[int, Round] = {}
        """By the identity of the iterator, while that is alive."""
        self._crews: deque[Round] = deque(maxlen=4)
        """The most recent rounds with workers, even if their iterator is gone."""
        self.waiting = self.postponed = Postponed(self._inspect, self._inspect_within)
        """The round whose last batch was not inspected yet."""

    def _attach(self) -> None:
        self._wrap(DataLoader, "__init__", self._wrap_init)
        self._wrap(LoaderIterator, "__init__", self._wrap_iterator_init)
        self._wrap(LoaderIterator, "_reset", self._wrap_reset)
        self._wrap(LoaderIterator, "_next_index", self._wrap_next_index)
        self._wrap(WorkerIterator, "_get_data", self._wrap_get_data)
        self._wrap(LoaderIterator, "__next__", self._wrap_next)

    def _wrap_init(self, original: Any) -> Any:
        def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:
            try:
                original(loader, *args, **kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise
            stack = user_stack(caller_frame())
            self._guarded(self.listener.loaders.note_construction, loader, stack)

        return __init__

    def _wrap_iterator_init(self, original: Any) -> Any:
        def __init__(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            self._guarded(self._note_epoch, iterator, loader)
            try:
                original(iterator, loader, *args, **kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise

        return __init__

    def _wrap_reset(self, original: Any) -> Any:
        """Start a new round: persistent workers begin the next epoch with the same iterator."""

        def _reset(iterator: Any, loader: Any, first_iter: bool = False) -> None:
            if not first_iter:
                self._guarded(self._note_epoch, iterator, loader)
            try:
                original(iterator, loader, first_iter)
            except BaseException as exception:
                hide_own_frames(exception)
                raise
            self._guarded(self.listener.workers_started)

        return _reset

    def _wrap_next_index(self, original: Any) -> Any:
        rounds = self._rounds

        def _next_index(iterator: Any) -> Any:
            try:
                indices = original(iterator)
            except BaseException as exception:
                hide_own_frames(exception)
                raise
            now = rounds.get(id(iterator))
            if now is not None and now.is_quick:
                now.sent[0] = indices
            else:
                self._guarded(self._note_sent, iterator, indices)
            return indices

        return _next_index

    def _wrap_get_data(self, original: Any) -> Any:
        def _get_data(iterator: Any) -> Any:
            try:
                got = original(iterator)
            except BaseException as exception:
                hide_own_frames(exception)
                raise
            self._guarded(self._note_arrival, iterator, got)
            return got

        return _get_data

    def _wrap_next(self, original: Any) -> Any:
        listener, rounds, calls = self.listener, self._rounds, self.listener.calls
        plain_batch_arrived, wait = listener.plain_batch_arrived, self._wait

        def __next__(iterator: Any) -> Any:
            if calls.on:
                self._guarded(listener.fetch_began)
            try:
                data = original(iterator)
            except BaseException as exception:
                if isinstance(exception, StopIteration):
                    self._guarded(self._note_end, iterator)
                elif isinstance(exception, Exception):
                    self._guarded(self._note_failure, iterator, exception)
                self._guarded(listener.fetch_ended)
                hide_own_frames(exception)
                raise
            now = rounds.get(id(iterator))
            if now is not None and now.is_quick:
                if calls.on:
                    self._guarded(listener.fetch_ended)
                elif now.info.is_known and is_grad_enabled() and get_ident() == self._thread:
                    wait(now, data)
                    return data
                self._guarded(plain_batch_arrived, now.info, now.sent.pop(0, None), data)
            else:
                self._guarded(self._note_batch, iterator, data)
            return data

        return __next__

    def _wait(self, now: Round, data: Any) -> None:
        """Postpone the inspection of a known loader's batch until the program uses the batch."""
        if self.waiting.at is now:
            now.passed += 1
        else:
            if self.waiting.at is not None:
                self._guarded(self.waiting.take)
            self.waiting.at = now
        now.waiting = now.sent.pop(0, None), data

    def _inspect(self, now: Round) -> None:
        self._guarded(self._note_plain_batches, now)

    def _inspect_within(self, now: Round) -> None:
        """Inspect a batch, and attribute a fault to this sensor, whichever sensor triggered it."""
        if self.failed:
            return
        grad = is_grad_enabled()
        try:
            self._note_plain_batches(now)
        except BaseException as error:
            if self._is_interrupted_by(error, grad):
                raise

    def _note_plain_batches(self, now: Round) -> None:
        (indices, data), now.waiting = now.waiting, (None, None)
        if now.passed:
            self.listener.batches_passed(now.info, now.passed)
            now.passed = 0
        self.listener.plain_batch_arrived(now.info, indices, data)

    def _note_epoch(self, iterator: Any, loader: Any) -> None:
        info = self.listener.loaders.info_of(loader)
        self._rounds[id(iterator)] = Round(iterator, info, self._rounds)
        self.listener.epoch_began(info)

    def _note_sent(self, iterator: Any, indices: Any) -> None:
        now = self._rounds.get(id(iterator))
        if now is None:
            # The iterator was started before the watch.
            return
        # An iterable dataset receives no indices.
        kept = None if now.info.is_iterable else packed(indices)
        if not now.info.workers:
            now.sent[0] = kept
            if now.info.draws is not None:
                now.streams = now.info.draws.before()
            return
        now.sent[iterator._send_idx] = kept
        if now.tasks is not iterator._task_info:
            now.workers, now.tasks = iterator._workers, iterator._task_info
            now.info.seed = getattr(iterator, "_base_seed", 0)
            self._crews.append(now)

    def _note_arrival(self, iterator: Any, got: Any) -> None:
        """Note a completed task taken from the queue.

        A loader that keeps the order may hold it back for now.
        """
        now = self._rounds.get(id(iterator))
        if (
            now is not None
            and type(got[0]) is int
            and (task := iterator._task_info.get(got[0])) is not None
        ):
            now.arrived = got[0]
            now.made_by[got[0]] = task[0]

    def _taken(self, now: Round, iterator: Any) -> tuple[Sequence[Any] | None, int | None]:
        """Return the indices of the batch that arrived or failed, and the worker that made it."""
        number = 0
        if now.info.workers:
            number = iterator._rcvd_idx - 1 if getattr(iterator, "_in_order", True) else now.arrived
        indices = now.sent.pop(number, None)
        if indices is not None and type(indices) is not array and not now.is_plain:
            with self.listener.looking():
                indices = listed(indices, now.info.batched)
        return indices, now.made_by.pop(number, None)

    def _note_batch(self, iterator: Any, data: Any) -> None:
        listener = self.listener
        if listener.calls.on:
            listener.fetch_ended()
        now = self._rounds.get(id(iterator))
        if now is None:
            return
        indices, worker = self._taken(now, iterator)
        if now.info.draws is not None:
            now.info.draws.after(now.streams)
        listener.batch_arrived(
            listener.loaders.deliver(now.info, indices, worker, now.streams, data), data
        )
        now.judge()

    def _note_end(self, iterator: Any) -> None:
        if (now := self._rounds.get(id(iterator))) is not None:
            self.listener.epoch_ended(now.info)

    def _note_failure(self, iterator: Any, exception: Exception) -> None:
        if (now := self._rounds.get(id(iterator))) is not None:
            lost = lost_among(now, only_dead=not _timed_out(iterator, exception))
            indices, worker = self._taken(now, iterator)
            known = list(indices) if indices is not None else None
            self.listener.fetch_failed(now.info, known, worker, now.streams, exception, lost)

    def lost(self, only_dead: bool) -> tuple[LoaderInfo, list[Lost]] | None:
        """Return the first loader that has lost workers, even if its iterator is gone."""
        for now in list(self._rounds.values()):
            if lost := lost_among(now, only_dead):
                return now.info, lost
        for now in reversed(self._crews):
            killed = [each for each in lost_among(now, only_dead=True) if each.exit_code]
            if killed:
                return now.info, killed
        return None


def _timed_out(iterator: Any, exception: Exception) -> bool:
    """Return whether the loader itself raised because a worker exceeded its timeout."""
    raised = exception.__traceback__
    while raised is not None and raised.tb_next is not None:
        raised = raised.tb_next
    code = raised.tb_frame.f_code if raised is not None else None
    itself = code is not None and (code.co_filename, code.co_name) == (
        torch_dataloader.__file__,
        "_get_data",
    )
    return itself and bool(getattr(iterator, "_timeout", 0))


def lost_among(now: Round, only_dead: bool) -> list[Lost]:
    """Return the workers that have exited, or that still owe a batch."""
    found = []
    for number, worker in enumerate(now.workers):
        owed = [index for index, task in now.tasks.items() if len(task) == 1 and task[0] == number]
        alive = worker.is_alive()
        if (not alive and (worker.exitcode or owed)) or (alive and owed and not only_dead):
            indices = [
                each for key in owed for each in listed(now.sent.get(key), now.info.batched) or ()
            ]
            found.append(Lost(number, worker.pid, worker.exitcode, alive, indices))
    return found
