"""The optimizer listener: constructions, and steps from just before to just after the update."""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import TYPE_CHECKING

from torch.optim import Optimizer

from whence.source.sites import Site, user_frames, user_stack
from whence.tape.finite import weights_of
from whence.tape.slices import is_within_backward
from whence.watching.listeners.calls import EVALUATION
from whence.watching.listeners.listener import Listener
from whence.watching.listeners.loop import LoopListener
from whence.watching.updates import evaluates_once, is_torchs

if TYPE_CHECKING:
    from whence.watching.session import Session


class OptimizerListener(Listener):
    def __init__(self, session: Session, loop: LoopListener) -> None:
        super().__init__(session)
        self._loop = loop
        self._within: tuple[weakref.ref[Optimizer], int] | None = None
        """The last step within the current backward, and the number of steps including it."""

    def optimizer_built(self, optimizer: Optimizer, stack: tuple[Site, ...]) -> None:
        session = self.session
        if not session.is_looking:
            session.passes.hand.on = session.routine.on = False
            session.auditor.studies.forget_hand()
            session.auditor.optimizers.built(optimizer, stack, session.modules.count)
            sizes = tuple(len(group["params"]) for group in optimizer.param_groups)
            session.explainer.builds.note(optimizer, stack, sizes)

    def optimizer_refused(self, exception: Exception, used_up: bool) -> None:
        self.session.explainer.builds.given_used_up = used_up
        self._loop.refused(exception)

    def step_began(self, optimizer: Optimizer, evaluates: bool) -> None:
        session = self.session
        if session.is_looking or session.is_over:
            return
        if self._within is None:
            session.tripwires.portions.stepped()
        if not evaluates:
            self._before_update(optimizer)
        elif not evaluates_once(optimizer):
            session.auditor.optimizers.entry_of(optimizer).evaluates = True
        session.phases.append("optimizer")
        if session.calls.on:
            session.calls.only_failures = is_torchs(optimizer)
        session.stop_if_asked()

    def _before_update(self, optimizer: Optimizer) -> None:
        """Check the gradients, which the update uses next."""
        session = self.session
        with session.looking():
            if session.passes.hand.on:
                # Built before the watch began.
                session.passes.hand.on = False
                session.auditor.studies.forget_hand()
            within = is_within_backward()
            session.tripwires.step_began(optimizer, within)
            if session.pace.is_settled():
                session.auditor.step_began(optimizer, within)
            else:
                session.audited(session.auditor.step_began, optimizer, within)

    def evaluation_began(self, optimizer: Optimizer) -> None:
        session = self.session
        if not evaluates_once(optimizer):
            with session.looking():
                session.tripwires.next_pass()
                session.auditor.evaluation_began(optimizer)
        session.phases.append(EVALUATION)
        session.calls.only_failures = False

    def evaluation_ended(self, optimizer: Optimizer) -> None:
        session = self.session
        if session.phases and session.phases[-1] == EVALUATION:
            session.phases.pop()
        if not evaluates_once(optimizer):
            with session.looking():
                session.tripwires.evaluation_ended(optimizer)
                session.audited(session.auditor.evaluation_ended, optimizer)
        elif not session.is_over:
            self._before_update(optimizer)
            session.stop_if_asked()
        session.calls.only_failures = is_torchs(optimizer)

    def step_ended(self, optimizer: Optimizer, steps: int, frame: FrameType | None) -> None:
        session = self.session
        session.watchdog.go_on()
        if session.is_looking or session.is_over:
            return
        session.explainer.beats.stepped(optimizer, frame)
        if session.calls.only_failures and session.recording() and not session.calls.failed:
            with session.looking():
                self._note_update(optimizer, frame)
        session.calls.only_failures = False
        while session.phases:
            if session.phases.pop() == "optimizer":
                break
        if not is_within_backward():
            self._end_step(optimizer, steps)
            return
        with session.looking():
            session.tripwires.step_ended(optimizer)
            session.auditor.updated(optimizer)
        self._within = weakref.ref(optimizer), steps

    def step_unseen(self, steps: int) -> None:
        """Count a step under a tracer or a profiler, which is not watched otherwise."""
        self.session.step = steps

    def backward_ended(self) -> None:
        """End the steps that were made within a backward, which count as one."""
        within, self._within = self._within, None
        optimizer = within[0]() if within is not None else None
        if within is None or optimizer is None:
            return
        session = self.session
        session.routine.within = True
        with session.looking():
            session.tripwires.gradients_fine(optimizer, user_frames(sys._getframe(1)))
        self._end_step(optimizer, within[1])

    def _note_update(self, optimizer: Optimizer, frame: FrameType | None) -> None:
        """Record the step of a PyTorch optimizer as one call that changed its weights."""
        tape, weights = self.session.tape, weights_of(optimizer)
        now = self.session.call_listener.current(frame)
        call = tape.begin(type(optimizer).step, (weights,), {}, stack=user_stack(frame), **now)
        tape.finish(call, None, weights)

    def _end_step(self, optimizer: Optimizer, steps: int) -> None:
        session = self.session
        with session.looking():
            session.tripwires.step_ended(optimizer)
            session.step = steps
            session.audited(session.auditor.step_ended, optimizer, steps)
            session.pace.step_made()
            session.tripwires.next_pass()
        session.stop_if_asked()
        if session.config.steps is None:
            session.routine.judge()
        elif steps >= session.config.steps:
            session.retire()
