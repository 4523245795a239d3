"""Sees DataLoaders: where they are built, which samples make a batch, and what fails on the way."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any, Protocol

from torch.utils.data import DataLoader
from torch.utils.data import dataloader as torch_dataloader

from whence.sensors.sensor import Complaints, Sensor, hide_this_frame
from whence.source.sites import caller_frame, user_stack
from whence.tape.batches import Batch, LoaderBook, LoaderInfo, Lost

_Iterator = torch_dataloader._BaseDataLoaderIter


class Listener(Complaints, Protocol):
    loaders: LoaderBook

    def fetch_began(self) -> None: ...
    def fetch_ended(self) -> None: ...
    def batch_arrived(self, batch: Batch, data: Any) -> None: ...
    def epoch_began(self, info: LoaderInfo) -> None: ...
    def epoch_ended(self, info: LoaderInfo) -> None: ...
    def fetch_failed(
        self, info: LoaderInfo, indices: list[Any] | None, exception: Exception, lost: list[Lost]
    ) -> None: ...


class LoaderSensor(Sensor):
    """Wraps methods of torch's loader while it is on. A batch passes through untouched."""

    name = "loader"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self._infos: weakref.WeakKeyDictionary[Any, LoaderInfo] = weakref.WeakKeyDictionary()
        self._sent: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()
        self._crews: deque[tuple[LoaderInfo, Any, Any, dict[int, Any]]] = deque(maxlen=4)
        """The workers of the last loaders, and what they were asked for."""

    def _attach(self) -> None:
        self._wrap(DataLoader, "__init__", self._wrap_init)
        self._wrap(_Iterator, "__init__", self._wrap_iterator_init)
        self._wrap(_Iterator, "_reset", self._wrap_reset)
        self._wrap(_Iterator, "_next_index", self._wrap_next_index)
        self._wrap(_Iterator, "__next__", self._wrap_next)

    def _wrap_init(self, original: Any) -> Any:
        def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:
            try:
                original(loader, *args, **kwargs)
            except BaseException as exception:
                hide_this_frame(exception)
                raise
            stack = user_stack(caller_frame())
            self._guarded(lambda: self.listener.loaders.note_construction(loader, stack))

        return __init__

    def _wrap_iterator_init(self, original: Any) -> Any:
        def __init__(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            self._guarded(lambda: self._note_epoch(iterator, loader))
            original(iterator, loader, *args, **kwargs)

        return __init__

    def _wrap_reset(self, original: Any) -> Any:
        """Workers that stay on begin another epoch with the same iterator."""

        def _reset(iterator: Any, loader: Any, first_iter: bool = False) -> None:
            if not first_iter:
                self._guarded(lambda: self._note_epoch(iterator, loader))
            original(iterator, loader, first_iter)

        return _reset

    def _wrap_next_index(self, original: Any) -> Any:
        def _next_index(iterator: Any) -> Any:
            indices = original(iterator)
            self._guarded(lambda: self._note_sent(iterator, indices))
            return indices

        return _next_index

    def _wrap_next(self, original: Any) -> Any:
        def __next__(iterator: Any) -> Any:
            self._guarded(self.listener.fetch_began)
            try:
                data = original(iterator)
            except BaseException as exception:
                if isinstance(exception, StopIteration):
                    self._guarded(lambda: self.listener.epoch_ended(self._infos[iterator]))
                elif isinstance(exception, Exception):
                    failure: Exception = exception
                    self._guarded(lambda: self._note_failure(iterator, failure))
                hide_this_frame(exception)
                raise
            finally:
                self._guarded(self.listener.fetch_ended)
            self._guarded(lambda: self._note_batch(iterator, data))
            return data

        return __next__

    def _note_epoch(self, iterator: Any, loader: Any) -> None:
        info = self._infos[iterator] = self.listener.loaders.info_of(loader)
        info.orders = [*info.orders[-3:], 0]
        self.listener.epoch_began(info)

    def _note_sent(self, iterator: Any, indices: Any) -> None:
        sent = self._sent.get(iterator)
        if sent is None:
            sent = self._sent[iterator] = {}
            if hasattr(iterator, "_task_info"):
                self._crews.append((self._infos[iterator], iterator._workers, iterator._task_info, sent))
        number = getattr(iterator, "_send_idx", None)
        if number is None:
            sent.clear()
            number = 0
        sent[number] = indices

    def _taken(self, iterator: Any) -> list[Any] | None:
        """The indices of the batch that has just come (or failed to)."""
        sent = self._sent.get(iterator, {})
        received = getattr(iterator, "_rcvd_idx", None)
        if received is not None and not getattr(iterator, "_in_order", True):
            return None
        indices = sent.pop(0 if received is None else received - 1, None)
        if indices is None:
            return None
        return _as_list(indices)

    def _note_batch(self, iterator: Any, data: Any) -> None:
        indices = self._taken(iterator)
        if iterator._dataset_kind == torch_dataloader._DatasetKind.Iterable:
            indices = None
        info = self._infos[iterator]
        if info.shuffles_by_epoch and indices is not None and info.orders:
            info.orders[-1] = hash((info.orders[-1], *indices))
        self.listener.batch_arrived(self.listener.loaders.deliver(self._infos[iterator], indices, data), data)

    def _note_failure(self, iterator: Any, exception: Exception) -> None:
        lost = self._lost(iterator, only_dead=True)
        self.listener.fetch_failed(self._infos[iterator], self._taken(iterator), exception, lost)

    def _lost(self, iterator: Any, only_dead: bool) -> list[Lost]:
        """Workers that have ended, or those that were asked for something and have not brought it."""
        tasks = getattr(iterator, "_task_info", None)
        return (
            lost_among(iterator._workers, tasks, self._sent.get(iterator, {}), only_dead) if tasks is not None else []
        )

    def lost(self, only_dead: bool) -> tuple[LoaderInfo, list[Lost]] | None:
        """The first loader that has lost workers; also if its iterator is gone with the loop that it was in."""
        for iterator, info in list(self._infos.items()):
            if lost := self._lost(iterator, only_dead):
                return info, lost
        for info, workers, tasks, sent in reversed(self._crews):
            killed = [each for each in lost_among(workers, tasks, sent, only_dead=True) if each.exit_code]
            if killed:
                return info, killed
        return None


def lost_among(workers: Any, tasks: dict[int, Any], sent: dict[int, Any], only_dead: bool) -> list[Lost]:
    found = []
    for number, worker in enumerate(workers):
        owed = [index for index, task in tasks.items() if len(task) == 1 and task[0] == number]
        alive = worker.is_alive()
        if (not alive and (worker.exitcode or owed)) or (alive and owed and not only_dead):
            indices = [each for key in owed for each in _as_list(sent.get(key))]
            found.append(Lost(number, worker.pid, worker.exitcode, alive, indices))
    return found


def _as_list(indices: Any) -> list[Any]:
    if indices is None:
        return []
    return list(indices) if isinstance(indices, list | tuple) else [indices]
