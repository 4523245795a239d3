"""The tripwire for steps that the program skips: a loss that it rejects, a step not made."""

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

    def report(self, trip: Trip) -> list[Finding]: ...
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
        """Findings from the program's own check in this pass."""
        self._read: list[Finding] | None = None
        """The same in a program that has not trained."""
        self._waits = 0
        """Checks that had to wait for a device."""
        self._left_out: list[Finding] = []
        """Bad data that the program's own check skipped, before any step succeeded."""

    def forget(self) -> None:
        self.held = self._read = None
        self._left_out = []

    # The program's own check.

    def value_read(self, call: Call) -> None:
        """Diagnose a non-finite value that the program reads; its reaction is known later."""
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
        """Report what was read in a program that ended without training."""
        found = self._wires.telling.milder(as_skipped, self._read) if self._read else []
        self._host.say(found)
        return found

    # Steps that were not made.

    def pass_over(self, held: list[Finding]) -> None:
        """Report a pass that the program's check rejected, which has no backward."""
        self.say(self._wires.telling.milder(as_skipped, held))

    def skipped(self, loss: torch.Tensor, stack: tuple[Site, ...]) -> None:
        """Report a bad loss that had its backward, and whose gradients nobody has used."""
        wires = self._wires
        # Gradients that still exist may yet be used, together with those of later backwards.
        kept = [each.grad for one in self._host.known_optimizers() for each in weights_of(one)]
        are_kept = any(each is not None for each in kept) and all_finite(kept)
        consequence = (
            Consequence.REPORTED if are_kept and not wires.scales.are_used else Consequence.SKIPPED
        )
        trip = wires.trip(Notice.LOSS, consequence, loss, stack, user_frames(sys._getframe(2)))
        wires.diagnosed = wires.telling.ask(trip)
        if wires.scales.are_used or are_kept:
            # A GradScaler skips overflows silently.
            self._host.say(wires.diagnosed)
        else:
            self.say(wires.diagnosed)

    def skipped_before(self, trip: Trip) -> list[Finding]:
        """The same for a step that was read late."""
        found = self._wires.telling.ask(trip)
        self.say(found)
        return found

    def abandoned(
        self,
        consequence: Consequence,
        frames: list[FrameType],
        exception: BaseException | None = None,
    ) -> list[Finding]:
        """Check a forward pass with gradients but no backward: did the program reject its loss?"""
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
                        return wires.report(trip)
                    wires.diagnosed = wires.telling.ask(trip)
                    self.say(wires.diagnosed)
                    return wires.diagnosed
        if consequence is Consequence.ENDED and now.trained and not now.recorded:
            # Nothing of it is left to inspect, but the step itself can still be run.
            return wires.report(
                wires.trip(Notice.LOSS, consequence, None, (), frames, exception=exception)
            )
        return []

    def _may_look(self, frames: list[FrameType]) -> bool:
        """Whether to check, which waits for the device on an accelerator.

        A program with many passes without a backward gets a few checks.
        """
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

    # Reporting.

    def say(self, findings: list[Finding]) -> None:
        """Report findings, but hold back bad data that the program checks for and skips.

        Such data matter only if nothing else is left to train on.
        """
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
