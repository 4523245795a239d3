"""The tripwire for updates: finite gradients but bad weights, a raised loss, bad state."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol, TypeVar

import torch
from torch.optim import Optimizer

from whence.finding import Finding
from whence.lineage.updating import Counts, made_again
from whence.source.sites import Site, user_frames, user_stack
from whence.tape.finite import all_finite, weights_of
from whence.tape.passes import PassBook
from whence.tape.replay import trouble_in
from whence.tape.trip import BadUpdate, Consequence, Notice, RateTrial, Trip
from whence.watching.course import Course
from whence.watching.diagnosing import Diagnoser
from whence.watching.overshoot import LooksBack, before_last_update
from whence.watching.pending_steps import PendingSteps
from whence.watching.telling import Telling
from whence.watching.updates import RateProbe, bad_state, dry_run, is_torchs, rounds_eps
from whence.weak_table import WeakTable

T = TypeVar("T")


class Host(Protocol):
    def diagnose(self, ask: Callable[[], T]) -> T: ...
    def built_at(self, optimizer: Optimizer) -> tuple[Site, ...]: ...
    def tests_rates(self, optimizer: Optimizer) -> bool: ...
    def keeps_rate(self, optimizer: Optimizer) -> bool: ...
    def overshot(self, optimizer: Optimizer, trial: RateTrial | None) -> None: ...


class Wires(Protocol):
    """The tripwires that this one belongs to."""

    telling: Telling
    course: Course
    passes: PassBook
    diagnoser: Diagnoser
    pending: PendingSteps
    current_loss: torch.Tensor | None

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


class UpdateWire:
    def __init__(self, wires: Wires, host: Host) -> None:
        self._wires = wires
        self._host = host
        self._optimizers: WeakTable[Optimizer, tuple[bool, bool]] = WeakTable()
        """Optimizers that have stepped: whether eps rounds to zero, and whether they are custom."""
        self._stepping: weakref.ref[Optimizer] | None = None
        self._rounds_eps = self._is_own = self._may_spoil = False
        self._reported_update = self._reported_state = False
        self._rate: RateProbe | None = None
        self._counts: Counts | None = None
        """Of a custom optimizer, before the current step."""
        self._looks_back = LooksBack()
        self.test_exploded = False
        """Whether a range test made the loss explode, which is what a range test is for."""

    def forget(self) -> None:
        self._rate = None

    def begin_anew(self) -> None:
        self._reported_update = self._reported_state = False

    def stepping(self) -> list[Optimizer]:
        return self._optimizers.things()

    def is_quiet(self, count: int) -> bool:
        """Whether all `count` optimizers are PyTorch's and have stepped, and nothing is tried."""
        return (
            count == len(self._optimizers)
            and not any(rounds_eps or is_own for rounds_eps, is_own in self._optimizers.values())
            and not self._may_spoil
            and self._rate is None
        )

    # Before the update.

    def enter(self, optimizer: Optimizer) -> None:
        if self._stepping is None or self._stepping() is not optimizer:
            self._stepping = weakref.ref(optimizer)
            if optimizer not in self._optimizers:
                self._optimizers[optimizer] = rounds_eps(optimizer), not is_torchs(optimizer)
            self._rounds_eps, self._is_own = self._optimizers[optimizer]

    def expect(self, fine: bool) -> None:
        """Prepare for gradients about to be used, which are finite if `fine`."""
        self._may_spoil = (
            fine and self._is_own and not self._wires.telling.has_lost and not self._reported_update
        )
        optimizer = self._stepping() if self._stepping is not None else None
        self._counts = Counts.of(optimizer) if self._may_spoil and optimizer is not None else None

    def before(self, optimizer: Optimizer, weights: list[torch.Tensor]) -> None:
        """Check an update with finite gradients."""
        telling, course = self._wires.telling, self._wires.course
        if not (self._rounds_eps or course.jumped) or telling.has_lost or self._reported_update:
            return
        update = (
            dry_run(optimizer, lambda each: telling.names([each])[0]) if self._rounds_eps else None
        )
        if update is not None:
            self._reported_update = True
            self._report(optimizer, Notice.UPDATE, update)
            telling.mark_lost(weights)
        elif self._host.keeps_rate(optimizer) and self._looks_back.is_due(course, optimizer):
            self._look_back(optimizer)
        if update is None and course.jumped and telling.cause is None and course.explodes():
            if self._host.tests_rates(optimizer):
                self.test_exploded = True
                return
            course.tried()
            self._rate = self._probe(float(optimizer.param_groups[0]["lr"]), weights)

    def before_by_hand(self) -> None:
        """Prepare for a manual update, after a backward."""
        telling, course = self._wires.telling, self._wires.course
        if (
            not course.jumped
            or telling.has_lost
            or telling.cause is not None
            or not course.explodes()
        ):
            return
        course.tried()
        self._rate = self._probe(None, self._wires.passes.hand.weights())

    def _look_back(self, optimizer: Optimizer) -> None:
        probe = self._probe(float(optimizer.param_groups[0]["lr"]), [])
        if probe is not None:
            probe.before = before_last_update(optimizer)
            self._host.overshot(optimizer, self._host.diagnose(probe.look_back))

    def _probe(self, rate: float | None, weights: list[torch.Tensor]) -> RateProbe | None:
        loss = self._wires.current_loss
        frames = user_frames(sys._getframe(1))
        found = self._wires.diagnoser.plan_of_loss(loss, frames) if loss is not None else None
        if found is None or loss is None:
            return None
        target, plan = found
        copies = [(each, each.detach().clone()) for each in weights]
        return RateProbe(
            rate, plan, target, loss.detach().clone(), copies, self._wires.course.start or 0.0
        )

    # After the update.

    def after(self, optimizer: Optimizer) -> None:
        telling = self._wires.telling
        if self._may_spoil and self._wires.pending.is_open:
            self._wires.pending.flag_weights(weights_of(optimizer))
        elif self._may_spoil and not all_finite(weights := weights_of(optimizer)):
            counts, self._counts = self._counts, None
            self._spoilt(
                optimizer, weights, self._host.diagnose(lambda: made_again(optimizer, counts))
            )
        probe, self._rate = self._rate, None
        trial = probe.settle() if probe is not None else None
        if trial is not None:
            # Any later overflow follows from it.
            telling.cause = next(iter(self._report(optimizer, Notice.RATE, trial)), None)
        elif self._wires.course.is_absurd():
            self.look_at_state(optimizer)

    def look_at_state(self, optimizer: Optimizer | None, stack: tuple[Site, ...] = ()) -> None:
        """Check the optimizer's state for non-finite values after an absurdly large loss.

        `stack` is the place of the update, if the program is elsewhere now.
        """
        if optimizer is None or self._wires.telling.has_lost or self._reported_state:
            return
        state = bad_state(optimizer)
        if state is not None and all_finite(weights_of(optimizer)):
            self._reported_state = True
            self._report(optimizer, Notice.STATE, state, stack)

    def spoilt_before(
        self, optimizer: Optimizer, weights: list[torch.Tensor], stack: tuple[Site, ...]
    ) -> list[Finding]:
        """The same for an update some steps ago, which cannot be repeated."""
        return self._spoilt(optimizer, weights, None, stack) if not self._reported_update else []

    def _spoilt(
        self,
        optimizer: Optimizer,
        weights: list[torch.Tensor],
        remade: Any,
        stack: tuple[Site, ...] = (),
    ) -> list[Finding]:
        """Report finite gradients with non-finite weights."""
        telling = self._wires.telling
        self._may_spoil, self._reported_update = False, True
        names = tuple(telling.names([each for each in weights if trouble_in(each)]))
        spoilt = BadUpdate(
            type(optimizer).__name__, names, weights[0].dtype, None, in_float32=False, remade=remade
        )
        found = self._report(optimizer, Notice.UPDATE, spoilt, stack)
        telling.mark_lost(weights)
        return found

    def after_by_hand(self, weights: Sequence[torch.Tensor]) -> None:
        """Check a manual update. These are the weights after it."""
        probe, self._rate = self._rate, None
        trial = probe.settle(weights) if probe is not None else None
        if probe is not None and trial is not None:
            made_at = self._wires.passes.hand.made_at
            frames = user_frames(sys._getframe(1))
            trip = self._wires.trip(
                Notice.RATE,
                Consequence.APPLIED,
                probe.observed,
                made_at,
                frames,
                built=made_at,
                evidence=trial,
            )
            self._wires.telling.cause = next(iter(self._wires.report(trip)), None)

    def _report(
        self, optimizer: Optimizer, notice: Notice, evidence: Any, stack: tuple[Site, ...] = ()
    ) -> list[Finding]:
        trip = self._wires.trip(
            notice,
            Consequence.APPLIED,
            self._wires.current_loss,
            stack or user_stack(sys._getframe(1)),
            user_frames(sys._getframe(1)),
            optimizer=optimizer,
            built=self._host.built_at(optimizer),
            evidence=evidence,
        )
        return self._wires.report(trip)
