"""The loader listener: epochs, batches, failed fetches, and hangs that the watchdog notices."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import dataloader

from whence.sensors.calls import CallSensor
from whence.source.sites import frames_from, frames_outside, user_frames, user_stack
from whence.tape.batches import Batch, LoaderInfo, Lost
from whence.tape.passes import MOST_DELIVERIES
from whence.tape.randomness import Kept
from whence.watching.listeners.listener import Listener

if TYPE_CHECKING:
    from whence.watching.session import Session

RECORDED_FETCHES = 12


class LoaderListener(Listener):
    def __init__(self, session: Session, calls: CallSensor) -> None:
        super().__init__(session)
        self.loaders = session.loaders
        self.calls = calls
        self._passes, self._tape = session.passes, session.tape
        self._ledger = session.auditor.batches
        self._fetches = 0

    def looking(self) -> AbstractContextManager[None]:
        return self.session.looking()

    def sensor_failed(self, sensor: str, error: BaseException) -> None:
        # The sensor will not report the end of its current fetch.
        self.fetch_ended()
        super().sensor_failed(sensor, error)

    def fetch_began(self) -> None:
        """Begin a fetch.

        A dataset treats every sample alike, so after some batches only failures are recorded.
        """
        self.session.phases.append("data")
        self._fetches += 1
        self.session.calls.only_failures = self._fetches > RECORDED_FETCHES

    def fetch_ended(self) -> None:
        phases = self.session.phases
        if phases and phases[-1] == "data":
            phases.pop()
        self.session.calls.only_failures = False

    def batch_arrived(self, batch: Batch, data: Any) -> None:
        """Handle a batch. It runs for every batch, so it does little if the loader is known."""
        session = self.session
        passes, info = session.passes, batch.info
        now = passes.current
        too_many = now.recorded and len(now.deliveries) >= MOST_DELIVERIES
        is_next = (
            passes.begun == 0
            or now.backwards
            or now.trained
            or too_many
            or not torch.is_grad_enabled()
        )
        is_next = is_next or self._has_left_its_mark()
        if is_next and not (session.routine.on and session.routine.batch_arrived()):
            with session.looking():
                session.tripwires.next_pass()
        passes.deliver(batch, data)
        session.tape.batch_arrived(batch, info.form.paths, info.form.tensors(data))
        if session.auditor.batches.count(info):
            with session.looking():
                session.auditor.batches.note(batch, data)
        if batch.signature is not info.noted:
            info.noted = batch.signature
            session.pace.note_signature(("batch", id(info), batch.signature))

    def plain_batch_arrived(
        self, info: LoaderInfo, indices: Sequence[Any] | None, data: Any
    ) -> None:
        """The short path for a batch like the last, of which only the indices are recorded."""
        form, now = info.form, self._passes.current
        is_other = now.backwards or now.trained or now.recorded or self._has_left_its_mark()
        if is_other or not torch.is_grad_enabled() or not form.is_like_last(data):
            self.batch_arrived(self.loaders.deliver(info, indices, None, (), data), data)
            return
        batch = self.loaders.current = Batch(info, info.batches, indices, form.signature)
        info.batches += 1
        self._passes.deliver(batch, data)
        self._tape.batch_arrived(batch, form.paths, data)
        if self._ledger.count(info):
            with self.session.looking():
                self._ledger.note(batch, data)

    def _has_left_its_mark(self) -> bool:
        """Whether the program skipped the last batch, which left bad running statistics."""
        passes, statistics = self._passes, self.session.tripwires.statistics
        skipped = passes.watched and passes.has_its_batches() and not passes.current.backwards
        return bool(skipped) and not statistics.are_lost and not statistics.are_healthy()

    def batches_passed(self, info: LoaderInfo, count: int) -> None:
        """Count batches that came in sequence without any other event."""
        info.batches += count
        self._ledger.pass_over(info, count)

    def epoch_began(self, info: LoaderInfo) -> None:
        session = self.session
        with session.looking():
            session.audited(session.auditor.epoch_began, info, user_stack(sys._getframe(1)))

    def epoch_ended(self, info: LoaderInfo) -> None:
        session = self.session
        with session.looking():
            epoch = session.auditor.epoch_ended(info)
            if epoch is not None and not epoch.batches:
                frame = sys._getframe(1)
                session.audited(session.auditor.audit, user_stack(frame), user_frames(frame), False)

    def fetch_failed(
        self,
        info: LoaderInfo,
        indices: list[Any] | None,
        worker: int | None,
        streams: Kept,
        exception: Exception,
        lost: list[Lost],
    ) -> None:
        session, explainer = self.session, self.session.explainer
        outer = frames_outside(exception)
        if lost:
            session.explain(
                exception, lambda: explainer.lost_worker(info, lost, exception, outer, session.step)
            )
        elif indices is not None or info.is_iterable:
            session.explain(
                exception,
                lambda: explainer.fetch(
                    info, indices, worker, streams, exception, outer, session.step
                ),
            )

    def workers_started(self) -> None:
        """Restart the watchdog, whose thread the fork of the workers has ended.

        A hang at the first batch must be noticed too.
        """
        self.session.watchdog.go_on()

    def stands_still(self, thread: int, seconds: float) -> None:
        """Explain a hang. The watchdog calls this from its own thread while the program waits."""
        session = self.session
        frame = sys._current_frames().get(thread)
        frames = list(frames_from(frame))
        if _may_wait_for_a_device(frames):
            return
        waits_for_data = any(each.f_code.co_filename == dataloader.__file__ for each in frames)
        lost = session.loader_sensor.lost(only_dead=False) if waits_for_data else None
        if lost is not None:
            waiting = TimeoutError(f"no batch for {seconds:.0f} seconds")
            session.say(session.explainer.lost_worker(*lost, waiting, frames, session.step))
        else:
            session.auditor.stands_still(user_stack(frame), user_frames(frame), seconds, _rank())


def _rank() -> tuple[int, int] | None:
    """This rank, and the number of ranks."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None


def _may_wait_for_a_device(frames: list[FrameType]) -> bool:
    """Whether an accelerator may be busy, which takes no CPU time.

    A wait in the standard library, the loader or a collective is not a wait for a device.
    """
    if not frames or not _has_accelerator():
        return False
    innermost = frames[0].f_code.co_filename
    waits = (
        dataloader.__file__,
        os.path.dirname(threading.__file__),
        os.path.dirname(torch.distributed.__file__),
    )
    is_package = f"{os.sep}site-packages{os.sep}" in innermost and not innermost.startswith(
        waits[2]
    )
    return is_package or not innermost.startswith(waits)


def _has_accelerator() -> bool:
    modules = (getattr(torch, name, None) for name in ("cuda", "xpu"))
    in_use = any(each is not None and each.is_initialized() for each in modules)
    return in_use or torch.backends.mps.is_available()
