"""The backward listener: losses, gradients, and the calls that autograd refuses."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from whence.finding import Finding
from whence.source.interrupts import is_interrupt
from whence.source.sites import frames_outside, sites_in, user_frames, user_stack
from whence.torch_internals import are_transforms_active
from whence.watching.listeners.calls import EVALUATION
from whence.watching.listeners.listener import Listener
from whence.watching.listeners.optimizers import OptimizerListener

if TYPE_CHECKING:
    from whence.watching.session import Session

KEPT_LOOKS = frozenset({3, 6, 12, 24})
"""Gradients with a graph after which memory is checked, where no pass has ended.

Later the graphs are too large to be counted.
"""


class BackwardListener(Listener):
    def __init__(self, session: Session, optimizers: OptimizerListener) -> None:
        super().__init__(session)
        self._optimizers = optimizers
        self._has_ended_a_pass = False
        self._kept = 0
        """Gradients computed with a graph before the first pass ended."""

    def backward_began(
        self, losses: list[torch.Tensor], keeps_graph: bool, frame: FrameType | None
    ) -> bool:
        """Handle the start of a backward; True if its end should be reported too."""
        session = self.session
        if session.is_looking or are_transforms_active():
            return False
        session.explainer.beats.backward_began(frame, keeps_graph)
        if not self._has_ended_a_pass:
            self._has_ended_a_pass = True
            if self._kept:
                session.auditor.memory.clear()
        if session.loaders.current is not None:
            session.loaders.current.info.trained = True
        with session.looking():
            if session.passes.hand.on and losses:
                session.hand.backward_begins(losses[0])
            session.tripwires.backward_began(losses)
            if session.calls.on:
                session.auditor.backward_began(losses)
            session.auditor.loop.hold()
        if losses:
            session.pace.note_loss(losses[0])
        session.phases.append("backward")
        return True

    def graph_kept(self) -> None:
        """Handle a gradient that has a graph itself.

        Where no pass ever ends, these are the program's only events.
        """
        session = self.session
        if session.is_looking or are_transforms_active() or self._has_ended_a_pass or session.step:
            return
        self._kept += 1
        if self._kept in KEPT_LOOKS:
            with session.looking():
                session.audited(
                    session.auditor.look_at_memory, self._kept, user_frames(sys._getframe(1))
                )

    def backward_failed(self, func: Any, args: Any, kwargs: Any, exception: Exception) -> None:
        """Explain a backward that autograd refuses, or that fails in the program's code."""
        if are_transforms_active() or is_interrupt(exception):
            return
        session = self.session
        outer = frames_outside(exception)
        state: dict[str, Any] = {"step": session.step, "phase": "backward"}

        def ask() -> list[Finding]:
            if sites_in(exception.__traceback__):
                return session.explainer.traceback(exception, outer, scope=None, **state)
            stack = user_stack(outer[0] if outer else None)
            call = session.tape.begin(func, args, kwargs, stack=stack, module=None, **state)
            return session.explainer.refused_backward(call, func, args, kwargs, exception, outer)

        session.explain(exception, ask)

    def backward_ended(
        self, inputs: list[torch.Tensor], gradients: list[torch.Tensor], raised: bool
    ) -> None:
        session = self.session
        if session.is_looking or are_transforms_active():
            return
        if session.routine.on and not inputs and not raised and session.routine.backward_ended():
            return
        session.explainer.beats.is_running = False
        if session.phases and session.phases[-1] == "backward":
            session.phases.pop()
        session.passes.backward_ended()
        if raised:
            session.auditor.backward_failed()
            return
        if inputs or not session.optimizers.count:
            with session.looking():
                session.tripwires.backward_ended(inputs, gradients)
            session.stop_if_asked()
        elif session.tripwires.portions.more_to_come and EVALUATION not in session.phases:
            with session.looking():
                session.tripwires.portion_added()
        with session.looking():
            if session.order.on and session.passes.hand.on and not session.optimizers.count:
                session.audited(session.auditor.studies.before_update_by_hand, inputs, gradients)
            session.audited(session.auditor.backward_ended, session.order.on and not inputs)
        self._optimizers.backward_ended()
