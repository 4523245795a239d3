"""The tripwire at what the program leaves out by itself: a loss that it checks and passes over, a step that it does not make."""

from __future__ import annotations

import math
import sys
from types import FrameType
from typing import Any, Protocol

import torch
from torch.optim import Optimizer

from whence.devices import reads_are_free
from whence.finding import Finding
from whence.lineage.live import live_birth
from whence.source.sites import Site, user_frames, user_stack, variables
from whence.tape.finite import all_finite, weights_of
from whence.tape.passes import PassBook
from whence.tape.replay import trouble_in
from whence.tape.tape import Call
from whence.tape.trip import Consequence, Notice, Trip
from whence.watching.course import Course
from whence.watching.pending_steps import PendingSteps
from whence.watching.scales import Scales
from whence.watching.telling import Telling, as_known, as_skipped

LARGEST_CHECKED = 4096
MOST_WAITS = 8


class Host(Protocol):
    def say(self, findings: list[Finding]) -> None: ...
    def known_optimizers(self) -> list[Optimizer]: ...


class Wires(Protocol):
    """The tripwires that this one belongs to."""

    telling: Telling
    course: Course
    passes: PassBook
    pending: PendingSteps
    scales: Scales
    trained: bool
    diagnosed: list[Finding] | None

    def tell(self, trip: Trip) -> list[Finding]: ...
    def trip(
        self,
        notice: Notice,
        consequence: Consequence,
        observed: torch.Tensor | None,
        stack: tuple[Site, ...],
        frames: list[FrameType],
        **more: Any,
    ) -> Trip: ...


class SkipWire:
    def __init__(self, wires: Wires, host: Host) -> None:
        self._wires = wires
        self._host = host
        self.held: list[Finding] | None = None
        """What the program's own check has brought up in this pass."""
        self._read: list[Finding] | None = None
        """The same in a program that has not trained."""
        self._waits = 0
        """Looks that had to wait for a device."""
        self._left_out: list[Finding] = []
        """Data that the program's own check leaves out, before a step went well."""

    def forget(self) -> None:
        self.held = self._read = None
        self._left_out = []

    # the program's own check

    def value_read(self, call: Call) -> None:
        """The program reads a number, or asks whether it is finite: the answer is no. What it makes of that shows later."""
        wires = self._wires
        value = call.operands[0] if call.operands else None
        tensor = value.tensor if value is not None else None
        if (
            tensor is None
            or tensor.numel() > LARGEST_CHECKED
            or wires.diagnosed is not None
            or not trouble_in(tensor)
        ):
            return
        trained = (
            tensor.requires_grad and tensor.numel() == 1 and not wires.passes.current.backwards
        )
        if not trained and (wires.trained or self._read is not None or trouble_in(tensor) != "nan"):
            return
        trip = wires.trip(
            Notice.LOSS, Consequence.ENDED, tensor, call.stack, user_frames(sys._getframe(1))
        )
        if trained:
            wires.diagnosed = self.held = wires.telling.ask(trip)
        else:
            self._read = wires.telling.ask(trip)

    def say_read(self) -> list[Finding]:
        """The program is over, and has not trained."""
        found = self._wires.telling.milder(as_skipped, self._read) if self._read else []
        self._host.say(found)
        return found

    # steps that were not made

    def pass_over(self, held: list[Finding]) -> None:
        """The pass that its check has brought something up in has no backward."""
        self.say(self._wires.telling.milder(as_skipped, held))

    def skipped(self, loss: torch.Tensor, stack: tuple[Site, ...]) -> None:
        """A bad loss had its backward, and nobody has used what came of it."""
        wires = self._wires
        # Gradients that are still there may yet be used, with those of later backwards.
        kept = [each.grad for one in self._host.known_optimizers() for each in weights_of(one)]
        are_kept = any(each is not None for each in kept) and all_finite(kept)
        consequence = (
            Consequence.REPORTED if are_kept and not wires.scales.are_used else Consequence.SKIPPED
        )
        trip = wires.trip(Notice.LOSS, consequence, loss, stack, user_frames(sys._getframe(2)))
        wires.diagnosed = wires.telling.ask(trip)
        if wires.scales.are_used or are_kept:
            # A GradScaler leaves out what overflows, and says nothing of it.
            self._host.say(wires.diagnosed)
        else:
            self.say(wires.diagnosed)

    def skipped_before(self, trip: Trip) -> list[Finding]:
        """The same of a step that was read late."""
        found = self._wires.telling.ask(trip)
        self.say(found)
        return found

    def abandoned(
        self,
        consequence: Consequence,
        frames: list[FrameType],
        exception: BaseException | None = None,
    ) -> list[Finding]:
        """A forward pass with gradients on, and no backward: did the program find its loss wanting?"""
        wires, now = self._wires, self._wires.passes.current
        if consequence is Consequence.SKIPPED and not self._may_look(frames):
            return []
        for frame in frames:
            for thing in variables(frame).values():
                if (
                    isinstance(thing, torch.Tensor)
                    and thing.requires_grad
                    and thing.numel() == 1
                    and trouble_in(thing)
                ):
                    stack = (Site.of(frame), *user_stack(frame.f_back))
                    more: dict[str, Any] = {} if now.recorded else {"live": live_birth(thing)}
                    trip = wires.trip(
                        Notice.LOSS, consequence, thing, stack, frames, exception=exception, **more
                    )
                    if consequence is not Consequence.SKIPPED:
                        return wires.tell(trip)
                    wires.diagnosed = wires.telling.ask(trip)
                    self.say(wires.diagnosed)
                    return wires.diagnosed
        if consequence is Consequence.ENDED and now.trained and not now.recorded:
            # Nothing of it is left to look at; the step itself can still be run.
            return wires.tell(
                wires.trip(Notice.LOSS, consequence, None, (), frames, exception=exception)
            )
        return []

    def _may_look(self, frames: list[FrameType]) -> bool:
        """On an accelerator each look waits for the device: a program that often has passes without a backward gets a few."""
        if not self._wires.pending.is_on or not self._looks_wait(frames):
            return True
        self._waits += 1
        return self._waits <= MOST_WAITS

    def _looks_wait(self, frames: list[FrameType]) -> bool:
        return any(
            isinstance(thing, torch.Tensor)
            and thing.requires_grad
            and not reads_are_free(thing.device)
            for frame in frames
            for thing in variables(frame).values()
        )

    # telling

    def say(self, findings: list[Finding]) -> None:
        """A program that looks for bad data and leaves them out knows of them, unless nothing else is left to train on."""
        known = [each for each in findings if each.rule == "data/nonfinite"]
        self._host.say([each for each in findings if each not in known])
        self._left_out += known
        if self._has_trained_well():
            self.say_left_out()

    def say_left_out(self) -> None:
        left_out, self._left_out = self._left_out, []
        milder = self._wires.telling.milder
        self._host.say(milder(as_known, left_out) if self._has_trained_well() else left_out[:1])

    def _has_trained_well(self) -> bool:
        return any(math.isfinite(each) for each in self._wires.course.losses)
