"""The tripwires: a cheap check of the loss at backward, and of all gradients before their use.

A non-finite value is diagnosed at once, while the step's leaves exist, and reported when it has
consequences: an optimizer uses it, the weights become non-finite, or the program ends. A loss scale
that is too large, a line search that tried a bad point, and a gradient that nobody uses have no
consequences.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol, TypeVar

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from whence.config import Config
from whence.devices import reads_are_free
from whence.finding import Confidence, Finding
from whence.ledgers.schedules import Schedule
from whence.lineage.live import LiveBirth, live_birth
from whence.lineage.refusing import tensors_in_library, tensors_refused
from whence.repro import Repro
from whence.source.sites import Site, user_frames, user_stack
from whence.tape.finite import all_finite, gradients_of, weights_of
from whence.tape.handles import handles_in
from whence.tape.passes import PassBook
from whence.tape.portions import Portions
from whence.tape.replay import Plan, trouble_in
from whence.tape.tape import Value, flatten
from whence.tape.trip import Consequence, Notice, RateTrial, Trip
from whence.watching.course import Course
from whence.watching.diagnosing import Diagnoser
from whence.watching.pending_steps import PendingStep, PendingSteps
from whence.watching.scales import Scales
from whence.watching.skip_wire import SkipWire
from whence.watching.statistics import Statistics
from whence.watching.telling import Telling, as_skipped
from whence.watching.update_wire import UpdateWire
from whence.watching.updates import is_torchs

OTHER_WEIGHTS = "its values arrived after the update, so substitute weights were used"
MOST_ALERTS = 3
STEPS_IN_TIME = 100
"""The number of steps read immediately after a late step could not be explained."""
MOST_JUMPS = 32
"""Harmless jumps, after which only losses that are out of bounds are checked closely."""
MOST_THROWN_AWAY = 3
"""Non-finite gradients that the program discarded, after which it is taken as intended."""


T = TypeVar("T")


class Host(Protocol):
    """The owner of the tripwires."""

    config: Config
    step: int

    def recording(self) -> bool: ...
    def diagnose(self, ask: Callable[[], T]) -> T: ...
    def say(self, findings: list[Finding]) -> None: ...
    def record_next_step(self, why: str) -> None: ...
    def built_at(self, optimizer: Optimizer) -> tuple[Site, ...]: ...
    def known_optimizers(self) -> list[Optimizer]: ...
    def optimizer_count(self) -> int: ...
    def tests_rates(self, optimizer: Optimizer) -> bool: ...
    def schedule_of(self, optimizer: Optimizer) -> Schedule | None: ...
    def keeps_rate(self, optimizer: Optimizer) -> bool: ...
    def overshot(self, optimizer: Optimizer, trial: RateTrial | None) -> None: ...


@dataclass(slots=True)
class Bad:
    """A non-finite loss or non-finite gradients, and the findings about them."""

    findings: list[Finding]
    weights: list[weakref.ref[torch.Tensor]] = field(default_factory=list)
    waits_for: weakref.ref[Optimizer] | None = None
    """The optimizer that will use them, where another one steps first."""
    is_functional: bool = False
    """No backward and no optimizer will show what became of them."""

    def is_still_there(self) -> bool:
        """Whether they were neither used nor cleared, so that the next backward adds to them."""
        known = [each for ref in self.weights if (each := ref()) is not None]
        return any(trouble_in(each.grad) for each in known) and not any(map(trouble_in, known))


class Tripwires:
    def __init__(self, host: Host, passes: PassBook, diagnoser: Diagnoser) -> None:
        self.host = host
        self.passes = passes
        self.diagnoser = diagnoser
        self.telling = Telling(host, diagnoser)
        self.course = Course()
        self.trained = False
        self._bad_loss: tuple[torch.Tensor, tuple[Site, ...]] | None = None
        self.current_loss: torch.Tensor | None = None
        self._live: LiveBirth | None = None
        self._prepared: Sequence[tuple[Value, Plan]] = ()
        """Plans for the step of a bad loss, from the moment of its backward."""
        self.diagnosed: list[Finding] | None = None
        self._pending: Bad | None = None
        self._weights: list[weakref.ref[torch.Tensor]] = []
        self._inputs: list[tuple[weakref.ref[torch.Tensor], tuple[Site, ...]]] = []
        self._got_over_it = False
        """Whether finite losses followed the one that is not."""
        self.scales = Scales()
        self.pending = PendingSteps(passes)
        self.pending.is_on = self.scales.reads_late = host.config.stop_on is None
        self.update = UpdateWire(self, host)
        self.skips = SkipWire(self, host)
        self.portions = Portions()
        self._thrown_away = 0
        self._alerts = self._in_time_until = 0
        """Late steps without an explanation, and the step up to which all are read immediately."""
        self._jumps = 0
        """The number of jumps among losses that were read late."""
        self.statistics = Statistics(passes, diagnoser.modules, self.pending)
        self._is_aside = False
        self._used_loss: torch.Tensor | None = None
        """In a child process: the loss of the last pass."""
        self.manner = ""
        """How the current step differs from the program's."""

    @property
    def asked(self) -> bool:
        return self.skips.held is not None

    def forget(self) -> None:
        """Release every object of the program."""
        self._bad_loss = self.current_loss = self.diagnosed = self._pending = None
        self.skips.forget()
        self.update.forget()
        self._live = None
        self._prepared = ()
        self._inputs, self._weights = [], []
        self.pending.forget()
        self.scales.forget()

    def begin_anew(self) -> None:
        """Reset, for a child process that diagnoses its own run."""
        self.forget()
        self._is_aside, self._used_loss = True, None
        self.pending.is_on = self.scales.reads_late = False
        self.telling.begin_anew()
        self.update.begin_anew()
        self.scales.reported = False

    @property
    def loss(self) -> torch.Tensor | None:
        """The last loss with a backward in this pass, or in the one that its update has ended."""
        return self.current_loss if self.current_loss is not None else self._used_loss

    def left_over(self, trip: Trip) -> list[Finding]:
        """Findings on non-finite values that nobody used, in a pass that goes no further."""
        if self._pending is not None or self.skips.held is not None:
            return self._pending.findings if self._pending is not None else self.skips.held or []
        if self._bad_loss is not None:
            more = {
                "weights": trip.weights,
                "exception": trip.exception,
                "optimizer": trip.optimizer,
                "built": trip.built,
            }
            return self.telling.ask(
                self.trip(Notice.LOSS, trip.consequence, *self._bad_loss, trip.frames, **more)
            )
        return []

    def stepping(self) -> list[Optimizer]:
        return self.update.stepping()

    def is_quiet(self) -> bool:
        """Whether all optimizers are PyTorch's and have stepped, and nothing is suspected."""
        return (
            self.update.is_quiet(self.host.optimizer_count())
            and not self.course.jumped
            and self._pending is None
            and self._bad_loss is None
            and self.skips.held is None
            and self.diagnosed is None
            and self.course.is_usual()
            and not self.statistics.are_lost
        )

    # Passes.

    def next_pass(self, late: bool = False, spoilt: bool = False) -> None:
        """End the current pass: bad values in it that were not used were skipped.

        `late` if it ended before now; `spoilt` if the next one's weights or loss are not finite.
        """
        self._settle(everything=False, spoilt=spoilt)
        reported = self._look_at_statistics()
        self.pending.close()
        bad, self._bad_loss = self._bad_loss, None
        held, self.skips.held = self.skips.held, None
        if reported or self.statistics.are_lost:
            pass
        elif held is not None and not self.passes.current.backwards:
            self.skips.pass_over(held)
        elif bad is not None and self.diagnosed is None:
            self.skips.skipped(*bad)
        elif self.passes.current.trained and not self.passes.current.backwards:
            self.skips.abandoned(Consequence.SKIPPED, user_frames(sys._getframe(1)))
        if self._is_aside and self.current_loss is not None:
            self._used_loss = self.current_loss
        self.current_loss = self.diagnosed = self._live = None
        self._prepared = ()
        self.passes.begin(self.host.step, self.host.recording(), late)

    def _look_at_statistics(self) -> bool:
        """Report running statistics that the pass made non-finite: they outlive the pass."""
        lost = self.statistics.lost() if not self.telling.has_lost else None
        if lost is None:
            return False
        frames = user_frames(sys._getframe(2))
        more = {"evidence": lost.state(self.telling.names([lost.tensor])[0]), "target": lost.value}
        stack = user_stack(sys._getframe(2))
        return bool(
            self.report(
                self.trip(Notice.STATE, Consequence.SKIPPED, lost.tensor, stack, frames, **more)
            )
        )

    def program_ended(
        self, frames: list[FrameType], exception: BaseException | None
    ) -> list[Finding]:
        """Check what the program left behind."""
        self.pending.close()
        late = self.settle_pending(wait=True, exception=exception)
        self.skips.say_left_out()
        if late:
            return late
        if self._pending is not None and self._pending.is_functional:
            found, self._pending = self.telling.milder(as_skipped, self._pending.findings), None
            self.host.say(found)
            return found
        self._settle()
        bad, self._bad_loss = self._bad_loss, None
        held = self.skips.held
        if held is not None and not self.passes.current.backwards:
            self.host.say(held)
            return held
        if bad is not None and self.diagnosed is None:
            # A program without modules and optimizers is one long pass, which went on if later
            # losses are finite.
            consequence = Consequence.REPORTED if self._got_over_it else Consequence.ENDED
            return self.report(
                self.trip(Notice.LOSS, consequence, bad[0], bad[1], frames, exception=exception)
            )
        now = self.passes.current
        # Without hooks it is unknown whether the pass trained.
        if (
            (now.trained or isinstance(exception, Exception))
            and not now.backwards
            and self.diagnosed is None
        ):
            found = self.skips.abandoned(Consequence.ENDED, frames, exception)
            if found:
                return found
        if not self.trained:
            return self._untrained(frames) or self.skips.say_read()
        return []

    # The loss.

    def is_left_for_later(self, loss: torch.Tensor) -> bool:
        """Whether a loss is read some steps later, since reading it now would block.

        Only while all values that have arrived are fine.
        """
        if not self._are_pending_fine() or loss.numel() != 1 or not self.reads_late(loss.device):
            return False
        self.pending.add_loss(loss)
        return True

    def backward_began(self, losses: list[torch.Tensor]) -> None:
        self.trained = True
        late = bool(losses) and self.reads_late(losses[0].device)
        if self.pending:
            self.settle_pending(wait=not late)
            if late and not self.reads_late(losses[0].device):
                # A step that has arrived is not fine. The steps after it are handled before this
                # one.
                late = False
                self.settle_pending(wait=True)
        now = self.passes.current
        now.backwards += 1
        self.portions.made += 1
        if self._pending is not None and not self._pending.is_still_there():
            # Weights that are recreated in each step leave no trace but the next loss.
            self._settle(
                spoilt=self._pending.waits_for is None and any(trouble_in(each) for each in losses)
            )
        for loss in losses:
            self.current_loss = loss
            if late:
                self.pending.add_loss(loss)
                continue
            number = _number(loss)
            if number is not None:
                self._got_over_it = self._got_over_it or number - number == 0
                self.course.note(number)
            # A number minus itself is zero unless it is NaN or Inf.
            if (
                (number is None or number - number != 0)
                and self._bad_loss is None
                and trouble_in(loss)
            ):
                self._bad_loss, self._got_over_it = (loss, user_stack(sys._getframe(1))), False
                if not now.recorded and not self.telling.has_lost and self.telling.may_ask():
                    self._live = live_birth(loss)
                    self._prepared = self.diagnoser.prepare(loss, user_frames(sys._getframe(1)))
        if now.recorded:
            self.passes.note_handles(user_frames(sys._getframe(1)))
            if self.passes.hand.within:
                self.passes.note_update(self.passes.hand.weights())

    def backward_ended(
        self, inputs: list[torch.Tensor], gradients: Sequence[torch.Tensor | None]
    ) -> None:
        """Check the gradients, where no optimizer is known.

        This is the last moment at which weights are certainly those of the forward pass.
        """
        if self.diagnosed is None:
            self._look_after_backward(inputs, gradients)
        hand = self.passes.hand
        if hand.on and self._bad_loss is None and self._pending is None:
            given = [each for each in gradients if each is not None]
            if not inputs:
                hand.before.keep(hand.weights())
            elif len(given) == len(inputs) and all(
                each.is_leaf and each.requires_grad for each in inputs
            ):
                hand.before.keep(inputs, given)

    def _look_after_backward(
        self, inputs: list[torch.Tensor], gradients: Sequence[torch.Tensor | None]
    ) -> None:
        if self.passes.hand.on:
            self.update.before_by_hand()
        weights = [each for each in inputs if each.is_leaf and each.requires_grad]
        if inputs and len(weights) == len(inputs):
            bad = [
                weight for weight, each in zip(weights, gradients, strict=False) if trouble_in(each)
            ]
            if bad:
                self._suspect(
                    bad, [each for each in gradients if each is not None and trouble_in(each)]
                )
        elif not inputs and not self.update.stepping() and not self.host.optimizer_count():
            weights = self._leaves()
            hand = self.passes.hand
            hand.within = hand.within or (hand.on and hand.has_moved())
            # Hooks within backward may have used the gradients and cleared them.
            spoilt = hand.within and self.passes.current.recorded and not all_finite(weights)
            if spoilt or not all_finite([each.grad for each in weights]):
                bad = [each for each in weights if trouble_in(each.grad) or trouble_in(each)]
                self._suspect(bad, gradients_of(bad))
        lost = (
            [each for each in self.passes.hand.weights() if trouble_in(each)]
            if self._bad_loss is not None
            else []
        )
        if self._bad_loss is not None and self.diagnosed is None and self.passes.hand.on and lost:
            # The previous update made the weights non-finite, and its inputs may still exist.
            bad_loss, self._bad_loss = self._bad_loss, None
            self.report(
                self.trip(
                    Notice.LOSS, Consequence.APPLIED, *bad_loss, user_frames(sys._getframe(1))
                )
            )
            self.telling.mark_lost(lost)

    def portion_added(self) -> None:
        """Check accumulated gradients between backwards, to know which one broke them."""
        if (
            self._pending is not None
            or self.diagnosed is not None
            or self._thrown_away >= MOST_THROWN_AWAY
        ):
            return
        for optimizer in self.host.known_optimizers():
            weights = weights_of(optimizer)
            if self.pending.is_open:
                self.pending.flag_gradients(gradients_of(weights))
            elif not all_finite([each.grad for each in weights]):
                bad = [each for each in weights if trouble_in(each.grad)]
                self._suspect(bad, gradients_of(bad), weakref.ref(optimizer), by_last_backward=True)
                return

    def _leaves(self) -> list[torch.Tensor]:
        """The weights of the pass, remembered from when it was recorded."""
        now = self.passes.current
        if now.recorded:
            # Weights that this pass has made are not among its inputs.
            held = [each for each in now.held.values() if each.requires_grad and each.is_leaf]
            found = list({id(each): each for each in (*held, *self.passes.hand.weights())}.values())
            self._weights = [weakref.ref(each) for each in found]
            return found
        return [each for ref in self._weights if (each := ref()) is not None]

    def _suspect(
        self,
        weights: list[torch.Tensor],
        gradients: list[torch.Tensor],
        waits_for: weakref.ref[Optimizer] | None = None,
        by_last_backward: bool = False,
    ) -> None:
        """Diagnose non-finite gradients, which matter only once they are used."""
        if self._bad_loss is None:
            trip = self.trip(
                Notice.GRADIENT,
                Consequence.APPLIED,
                self.current_loss,
                user_stack(sys._getframe(1)),
                user_frames(sys._getframe(1)),
                weights=self.telling.names(weights),
                bad_gradients=gradients,
                by_last_backward=by_last_backward,
                **self._used_by(waits_for),
            )
        else:
            trip = self.trip(
                Notice.LOSS,
                Consequence.APPLIED,
                *self._bad_loss,
                user_frames(sys._getframe(1)),
                weights=self.telling.names(weights),
            )
        self.diagnosed = self.telling.ask(trip)
        self._pending = Bad(self.diagnosed, [weakref.ref(each) for each in weights], waits_for)

    def _used_by(self, waits_for: weakref.ref[Optimizer] | None) -> dict[str, Any]:
        optimizer = waits_for() if waits_for is not None else None
        return (
            {"optimizer": optimizer, "built": self.host.built_at(optimizer)}
            if optimizer is not None
            else {}
        )

    def _settle(self, everything: bool = True, spoilt: bool = False) -> None:
        """Report a suspicion if the weights, or their results, are no longer finite."""
        if self._pending is not None and (everything or self._pending.waits_for is None):
            pending, self._pending = self._pending, None
            weights = [each for ref in pending.weights if (each := ref()) is not None]
            if spoilt or any(trouble_in(each) for each in weights):
                self.telling.mark_lost(weights)
                self.host.say(pending.findings)
                if spoilt and pending.findings:
                    self.telling.cause, self.telling.is_over = pending.findings[0], True
            elif pending.waits_for is not None:
                self._thrown_away += 1

    # Results of torch.func.

    def may_ask(self) -> bool:
        return self._pending is None and self.telling.may_ask()

    def suspected(self) -> list[Finding]:
        return self._pending.findings if self._pending is not None else []

    def hold(self, findings: list[Finding], repros: list[Repro | None]) -> None:
        """Hold findings on non-finite results until the next step has them in its weights."""
        self.telling.asked_elsewhere()
        if findings:
            self.diagnosed, self._pending = findings, Bad(findings, is_functional=True)
        self.diagnoser.repros.update(zip(findings, repros, strict=True))

    def spoilt(self, tensor: torch.Tensor, given: Sequence[torch.Tensor]) -> list[Finding]:
        """Diagnose non-finite weights or data from which gradients are about to be computed."""
        if self._pending is not None or self.telling.is_over:
            return []
        frames, stack = user_frames(sys._getframe(1)), user_stack(sys._getframe(1))
        names = [
            handle.text for frame in frames for handle, each in handles_in(frame) if each is tensor
        ]
        more = {"weights": names[:1], "given": given}
        return self.telling.ask(
            self.trip(Notice.INPUT, Consequence.APPLIED, tensor, stack, frames, **more)
        )

    def input_spoilt(self, findings: list[Finding]) -> None:
        """Report that the computed result is not finite either."""
        if self._pending is not None:
            self._settle(spoilt=True)
        elif not self.telling.is_over:
            self.host.say(findings)
            self.telling.is_over = bool(findings)

    # The gradients.

    def step_began(self, optimizer: Optimizer, within: bool = False) -> None:
        """Check the gradients that an optimizer is about to use.

        `within` a backward, the gradients of other optimizers are not complete yet.
        """
        self.update.enter(optimizer)
        weights = weights_of(optimizer)
        late = self.pending.is_open
        if late:
            self._leave_for_later(optimizer, weights, within)
        fine = late or all_finite([each.grad for each in weights])
        self.update.expect(fine)
        if fine:
            if self.host.optimizer_count() > 1 and not within and not late:
                self._look_at_others(optimizer)
            if not late:
                self.update.before(optimizer, weights)
            if not within:
                self.gradients_fine(optimizer, user_frames(sys._getframe(1)))
            return
        found_inf = getattr(optimizer, "found_inf", None)
        if isinstance(found_inf, torch.Tensor) and bool(found_inf):
            # A fused optimizer under a GradScaler skips this step by itself.
            return
        self._apply(optimizer, [each for each in weights if trouble_in(each.grad)])

    def gradients_fine(self, optimizer: Optimizer, frames: list[FrameType]) -> None:
        """Report a non-finite loss whose gradients are all finite."""
        if self._bad_loss is not None and self.diagnosed is None and self._pending is None:
            bad, self._bad_loss = self._bad_loss, None
            more: dict[str, Any] = {"optimizer": optimizer, "built": self.host.built_at(optimizer)}
            self.report(self.trip(Notice.LOSS, Consequence.REPORTED, *bad, frames, **more))

    def _look_at_others(self, optimizer: Optimizer) -> None:
        """Check the gradients of the other optimizers before the first one changes anything."""
        if self.diagnosed is not None or not self.passes.current.backwards:
            return
        for other in self.host.known_optimizers():
            if other is not optimizer:
                weights = weights_of(other)
                if not all_finite([each.grad for each in weights]):
                    bad = [each for each in weights if trouble_in(each.grad)]
                    self._suspect(bad, gradients_of(bad), weakref.ref(other))
                    return

    def _apply(self, optimizer: Optimizer, weights: list[torch.Tensor]) -> None:
        pending, self._pending = self._pending, None
        if pending is None and self.skips.held:
            pending = Bad(self.skips.held)
        if pending is not None and pending.findings and is_torchs(optimizer):
            self.host.say(pending.findings)
            self.telling.mark_lost(weights)
            return
        if pending is not None and pending.findings:
            self._pending = Bad(pending.findings, [weakref.ref(each) for each in weights])
            return
        more = {
            "weights": self.telling.names(weights),
            "bad_gradients": [each.grad for each in weights],
            "optimizer": optimizer,
            "built": self.host.built_at(optimizer),
        }
        stack, frames = user_stack(sys._getframe(1)), user_frames(sys._getframe(1))
        if self._bad_loss is not None:
            loss, where = self._bad_loss
            self._bad_loss = None
            trip = self.trip(Notice.LOSS, Consequence.APPLIED, loss, where, frames, **more)
        else:
            trip = self.trip(
                Notice.GRADIENT, Consequence.APPLIED, self.current_loss, stack, frames, **more
            )
        if is_torchs(optimizer):
            self.report(trip)
            self.telling.mark_lost(weights)
        else:
            # The program's own optimizer may handle non-finite gradients.
            self.diagnosed = self.telling.ask(trip)
            self._pending = Bad(self.diagnosed, [weakref.ref(each) for each in weights])

    def scale_ends(self, scaler: GradScaler, stack: tuple[Site, ...]) -> None:
        """Check a GradScaler that has skipped a step and is about to halve its scale."""
        fall = self.scales.fall_of(scaler)
        if fall is None:
            return
        weights = [
            each
            for one in self.host.known_optimizers()
            for each in weights_of(one)
            if trouble_in(each.grad)
        ]
        notice, loss = (
            (Notice.LOSS, self._bad_loss[0])
            if self._bad_loss is not None
            else (Notice.GRADIENT, self.current_loss)
        )
        more = {
            "weights": self.telling.names(weights),
            "bad_gradients": gradients_of(weights),
            "evidence": fall,
        }
        trip = self.trip(
            notice, Consequence.SKIPPED, loss, stack, user_frames(sys._getframe(1)), **more
        )
        self.scales.reported = bool(self.report(trip))

    def step_ended(self, optimizer: Optimizer) -> None:
        self._settle(everything=False)
        self.update.after(optimizer)

    def evaluation_ended(self, optimizer: Optimizer) -> None:
        """Check a closure's gradients at a point that may be a trial of the optimizer."""
        weights = weights_of(optimizer)
        if not all_finite([each.grad for each in weights]) and self._pending is None:
            bad = [each for each in weights if trouble_in(each.grad)]
            self._suspect(bad, gradients_of(bad))

    # Values that are read late.

    def reads_late(self, device: torch.device) -> bool:
        """Whether the current pass is read some steps later.

        Reading it now would wait for the device, and everything was fine so far.
        """
        return (
            not reads_are_free(device)
            and self.pending.is_on
            and self.host.step >= self._in_time_until
            and not self.passes.current.recorded
            and not self.passes.hand.on
            and not self._is_suspicious()
            and self.course.is_usual()
            and self._pending is None
            and self._bad_loss is None
        )

    def _is_suspicious(self) -> bool:
        """Whether the loss has jumped, unless it often does, as with adversarial networks."""
        return self.course.jumped and (self._jumps <= MOST_JUMPS or self.course.is_out_of_bounds())

    def _leave_for_later(
        self, optimizer: Optimizer, weights: list[torch.Tensor], within: bool
    ) -> None:
        """Flag the gradients that an optimizer, and others in this pass, are about to use."""
        if not isinstance(getattr(optimizer, "found_inf", None), torch.Tensor):
            # A fused optimizer under a GradScaler skips non-finite gradients by itself.
            optimizers = [optimizer] if within else self.host.known_optimizers()
            self.pending.flag_gradients(
                [each for one in optimizers for each in gradients_of(weights_of(one))]
            )
        self.pending.updates(optimizer, weights)

    def _are_pending_fine(self) -> bool:
        """Retire the steps that have arrived, up to the first that is not fine."""
        while (step := self.pending.arrived()) is not None:
            if not self._is_fine(step):
                return False
            self.pending.retire()
        return True

    def _is_fine(self, step: PendingStep) -> bool:
        """Whether a step is like all others; its losses are then recorded."""
        losses = step.reading.losses()
        if any(step.reading.flags()) or not all(map(self.course.goes_on, losses)):
            return False
        self.course.losses.extend(losses)
        return True

    def settle_pending(
        self, *, wait: bool, exception: BaseException | None = None
    ) -> list[Finding]:
        """Diagnose the steps whose values have arrived, or wait for all of them."""
        found: list[Finding] = []
        while (step := self.pending.wait() if wait else self.pending.arrived()) is not None:
            if self._is_fine(step):
                self.pending.retire()
                continue
            losses, flags = step.reading.losses(), step.reading.flags()
            self.pending.take()
            for number in losses:
                self._got_over_it = self._got_over_it or number - number == 0
                self.course.note(number)
                self._jumps += self.course.jumped
            bad = next((place for place, number in enumerate(losses) if number - number != 0), None)
            if bad is None and step.optimizer is not None and self.course.is_absurd():
                with self._as_of(step, len(step.losses) - 1, []):
                    self.update.look_at_state(step.optimizer(), step.update_at)
            if bad is not None or any(flags):
                reported = self._look_into(step, bad, flags, exception)
                found += reported
                if (
                    not any(each.confidence is Confidence.PROVEN for each in reported)
                    and self._alerts < MOST_ALERTS
                ):
                    # The next step like it is checked while everything still exists.
                    self._alerts += 1
                    self._in_time_until = self.host.step + STEPS_IN_TIME
        return found

    def _look_into(
        self,
        step: PendingStep,
        bad: int | None,
        flags: tuple[bool, bool, bool],
        exception: BaseException | None,
    ) -> list[Finding]:
        """Diagnose a finished step with a non-finite loss, gradient, statistic or weight."""
        weights = [
            each
            for one in self.host.known_optimizers()
            for group in one.param_groups
            for each in group["params"]
        ]
        lost = [each for each in weights if trouble_in(each)]
        optimizer = step.optimizer() if step.optimizer is not None else None
        is_used = optimizer is not None or bool(lost)
        frames = user_frames(sys._getframe(1))
        more: dict[str, Any] = {"exception": exception, "weights": self.telling.names(lost)}
        if optimizer is not None:
            more |= {"optimizer": optimizer, "built": self.host.built_at(optimizer)}
        if self._pending is not None and flags[0]:
            # It was added to gradients that were already non-finite.
            return self._used_since(lost) if is_used else []
        number = bad if bad is not None else len(step.losses) - 1
        with self._as_of(step, number, lost):
            if bad is None and not flags[0]:
                return self._left_behind(flags, optimizer, lost, step.update_at, frames)
            notice = Notice.LOSS if bad is not None else Notice.GRADIENT
            more["by_last_backward"] = self.portions.of_this_step > 1
            if is_used:
                consequence = Consequence.APPLIED if flags[0] or lost else Consequence.REPORTED
            else:
                unused = Consequence.ENDED if exception is not None else Consequence.SKIPPED
                consequence = Consequence.APPLIED if notice is Notice.GRADIENT else unused
            stack = (
                step.backward_at if notice is Notice.LOSS or optimizer is None else step.update_at
            )
            trip = self.trip(notice, consequence, self.current_loss, stack, frames, **more)
            if is_used:
                found = self.report(trip)
                self.telling.mark_lost(lost)
                return found
            if notice is Notice.LOSS and not flags[0]:
                return self.skips.skipped_before(trip)
            found = self.telling.ask(trip)
        # Gradients that nobody has used yet.
        owner = next(
            (
                one
                for one in self.host.known_optimizers()
                if not all_finite(gradients_of(weights_of(one)))
            ),
            None,
        )
        if owner is not None:
            unfit = [each for each in weights_of(owner) if trouble_in(each.grad)]
            self._pending = Bad(found, [weakref.ref(each) for each in unfit], weakref.ref(owner))
        elif notice is Notice.LOSS:
            self.skips.say(found)
        return found

    def _used_since(self, lost: list[torch.Tensor]) -> list[Finding]:
        """Report findings on gradients that an update has used by now."""
        found, self._pending = self.suspected(), None
        self.host.say(found)
        self.telling.mark_lost(lost)
        return found

    def _left_behind(
        self,
        flags: tuple[bool, bool, bool],
        optimizer: Optimizer | None,
        lost: list[torch.Tensor],
        stack: tuple[Site, ...],
        frames: list[FrameType],
    ) -> list[Finding]:
        """Diagnose a step with finite losses and gradients, and non-finite results."""
        if flags[2] and optimizer is not None and lost:
            return self.update.spoilt_before(optimizer, lost, stack)
        spoilt = self.statistics.first_lost() if flags[1] and not self.statistics.are_lost else None
        if spoilt is None or self.telling.has_lost:
            return []
        more = {
            "evidence": spoilt.state(self.telling.names([spoilt.tensor])[0]),
            "target": spoilt.value,
        }
        return self.report(
            self.trip(Notice.STATE, Consequence.SKIPPED, spoilt.tensor, stack, frames, **more)
        )

    @contextmanager
    def _as_of(self, step: PendingStep, number: int, lost: list[torch.Tensor]) -> Iterator[None]:
        """Replace the current pass temporarily by a finished one, with the loss of this number."""
        kept = self.passes.current, self.host.step, self.current_loss, self.manner, self.diagnosed
        now = step.prepared(number, lost, self.telling.names(lost))
        self.passes.current, self.host.step = now, now.step
        self.current_loss = step.losses[number] if step.losses else None
        self.manner = OTHER_WEIGHTS if now.is_approximate else self.manner
        try:
            yield
        finally:
            self.passes.current, self.host.step, self.current_loss, self.manner, self.diagnosed = (
                kept
            )

    # Validators.

    def operand_refused(
        self,
        exception: BaseException,
        frames: list[FrameType],
        users: list[FrameType],
        stack: tuple[Site, ...],
        tensors: list[torch.Tensor] | None,
    ) -> list[Finding]:
        """Explain an exception that a non-finite value caused. `frames`: innermost first."""
        if tensors is None:
            tensors = [*tensors_refused(exception), *tensors_in_library(frames)]
        for tensor in tensors:
            if trouble_in(tensor):
                trip = self.trip(
                    Notice.OPERAND, Consequence.ENDED, tensor, stack, users, exception=exception
                )
                found = self.diagnosed = self.telling.ask(trip)
                if found:
                    return found
        return []

    # Programs that do not train.

    def module_given(self, args: Iterable[Any]) -> None:
        """Check the inputs of an outermost module, before the first backward."""
        if self.trained or len(self._inputs) >= 8:
            return
        for each in flatten(tuple(args)):
            if isinstance(each, torch.Tensor) and trouble_in(each):
                self._inputs.append((weakref.ref(each), user_stack(sys._getframe(2))))

    def _untrained(self, frames: list[FrameType]) -> list[Finding]:
        for ref, stack in self._inputs:
            tensor = ref()
            if tensor is not None:
                found = self.report(
                    self.trip(Notice.INPUT, Consequence.ENDED, tensor, stack, frames)
                )
                if found:
                    return found
        return []

    # Reporting.

    def trip(
        self,
        notice: Notice,
        consequence: Consequence,
        observed: torch.Tensor | None,
        stack: tuple[Site, ...],
        frames: list[FrameType],
        **more: Any,
    ) -> Trip:
        if self.passes.hand.on:
            more.setdefault("built", self.passes.hand.made_at)
        if isinstance(optimizer := more.get("optimizer"), Optimizer):
            more["schedule"] = self.host.schedule_of(optimizer)
        more.setdefault("live", self._live if notice is Notice.LOSS else None)
        return self.diagnoser.trip(
            notice,
            consequence,
            step=self.host.step,
            stack=stack,
            frames=frames,
            observed=observed,
            prepared=self._prepared if notice is Notice.LOSS else (),
            manner=self.manner,
            losses=tuple(self.course.losses),
            backwards=self.portions.of_this_step,
            **more,
        )

    def report(self, trip: Trip) -> list[Finding]:
        if (
            self.update.test_exploded
            and trip.optimizer is not None
            and self.host.tests_rates(trip.optimizer)
        ):
            self.diagnosed = []
            return []
        found = self.diagnosed = self.telling.ask(trip)
        self.host.say(found)
        return found


def _number(loss: torch.Tensor) -> float | None:
    """A loss as a number, or None if it has more than one element."""
    try:
        return float(loss.item())
    except (RuntimeError, TypeError):
        return None
