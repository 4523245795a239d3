"""The module listener: entries of outermost modules, and modules that raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from whence.source.interrupts import is_interrupt
from whence.source.sites import frames_outside
from whence.tape.passes import MOST_DELIVERIES
from whence.tape.scopes import Scope
from whence.torch_internals import are_transforms_active
from whence.watching.listeners.listener import Listener

if TYPE_CHECKING:
    from whence.watching.session import Session


class ModuleListener(Listener):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.modules = session.modules
        self.scope: Scope | None = None
        """The module that is running."""

    def recording(self) -> bool:
        return self.session.pace.recording()

    def module_entered(
        self, module: nn.Module, args: tuple[Any, ...], outermost: bool = False
    ) -> None:
        session = self.session
        outermost = outermost or (self.scope is not None and self.scope.parent is None)
        if not outermost or are_transforms_active():
            return
        with session.looking():
            self._note_entry(module, args)
        session.pace.note_inputs(module, args)

    def enters_as_ever(self, module: nn.Module, args: tuple[Any, ...]) -> bool:
        """The short path for a step like all others."""
        routine = self.session.routine
        return routine.on and not are_transforms_active() and routine.entered(module, args)

    def _note_entry(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        session = self.session
        session.hand.look()
        entries = len(session.passes.current.entries)
        trial = not torch.is_grad_enabled() and entries >= MOST_DELIVERIES
        if (
            session.tripwires.asked
            or session.passes.begun == 0
            or trial
            or session.passes.is_complete()
        ):
            session.tripwires.next_pass()
        if session.auditor.rounds.open:
            session.goes_by()
        session.passes.enter(args)
        session.tripwires.module_given(args)
        current = session.loaders.current
        session.auditor.model_entered(module, args, id(current.info) if current is not None else 0)

    def module_failed(
        self, _module: nn.Module, _args: tuple[Any, ...], exception: Exception
    ) -> None:
        if is_interrupt(exception):
            return
        session = self.session
        outer = frames_outside(exception)
        state: dict[str, Any] = {"scope": self.scope, "step": session.step, "phase": "forward"}
        session.explain(
            exception,
            lambda: (
                session.bad_operand(exception)
                or session.explainer.traceback(exception, outer, **state)
            ),
        )

    def entered_often(self) -> None:
        self.session.pace.judge_entries()

    def pause_calls(self) -> bool:
        calls = self.session.calls
        was_on = calls.on
        calls.stop()
        return was_on and not calls.on

    def resume_calls(self) -> None:
        self.session.calls.start()
