"""The call listener: each PyTorch call, before and after it runs, and failed calls."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from whence.ledgers.changes import CHANGES
from whence.ledgers.draws import DRAWS
from whence.ledgers.labels import LOSSES
from whence.lineage.refusing import refused_operands
from whence.rules.rule import call_rules
from whence.source.interrupts import is_interrupt
from whence.source.sites import Site, frames_outside
from whence.tape.tape import BLENDS, CASTS, WRITES, Call
from whence.torch_internals import are_transforms_active
from whence.watching.listeners.listener import Listener

if TYPE_CHECKING:
    from whence.watching.session import Session

SOME_CALLS = 512
READINGS = frozenset({"item", "__float__", "tolist", "isnan", "isfinite", "isinf"})
EVALUATION = "evaluation"
"""A closure that an optimizer calls: not the optimizer's own work."""


class CallListener(Listener):
    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.tape = session.tape
        self._noticed: set[Site | None] = set()

    def calls_missed(self) -> None:
        """Record that another tracer hid calls, so the pass cannot be replayed."""
        session = self.session
        self.tape.has_gaps = True
        session.passes.current.recorded = False
        session.record.not_watched(
            "calls under a tracer, a profiler, or the program's own torch mode"
        )

    def current(self, frame: FrameType | None) -> dict[str, Any]:
        session = self.session
        phase = session.phases[-1] if session.phases else EVALUATION
        if phase is EVALUATION:
            phase = "forward" if session.scope is not None else "program"
        return {
            "module": session.module_sensor.scope_at(frame),
            "step": session.step,
            "phase": phase,
        }

    def call_began(self, call: Call, tensors: list[torch.Tensor]) -> None:
        if are_transforms_active():
            self.tape.has_gaps = True
            return
        if call.inner:
            return
        session = self.session
        if session.passes.current.backwards and session.passes.hand.on:
            with session.looking():
                session.hand.call_begins(call)
        session.passes.note_operands(call, tensors)
        session.passes.note_draw(call)
        if not session.passes.begun and call.phase == "program":
            with session.looking():
                session.preparation.begins(call, tensors)
        if call.name in CHANGES and session.auditor.changes.is_open():
            with session.looking():
                session.auditor.changes.begins(call, tensors)

    def call_made(self, call: Call, _result: Any) -> None:
        session = self.session
        if call.number % SOME_CALLS == 0:
            session.pace.leave_off()
        if call.site not in self._noticed:
            self._notice(call)
        if call.name in CASTS or call.name in WRITES:
            with session.looking():
                self.tape.note_cut(call)
        if call.name in BLENDS:
            with session.looking():
                self.tape.note_blend(call)
        if not are_transforms_active():
            self._note_made(call)
        if session.auditor.rounds.open and call.phase in ("program", "forward"):
            session.goes_by()
        session.got_on()

    def _notice(self, call: Call) -> None:
        """Report calls that are a mistake by themselves, in any context."""
        for notice in call_rules():
            if (finding := notice(call)) is not None:
                self._noticed.add(call.site)
                self.session.hold([finding])

    def _note_made(self, call: Call) -> None:
        session = self.session
        if not session.passes.begun and call.phase == "program":
            with session.looking():
                session.preparation.made(call)
        if call.name in LOSSES and not session.passes.current.deliveries:
            with session.looking():
                session.auditor.labels.note(call, session.passes.current, session.passes.calls)
        if call.name in CHANGES and session.auditor.changes.is_open():
            with session.looking():
                session.auditor.changes.made(call)
        if call.name in DRAWS and EVALUATION not in session.phases:
            with session.looking():
                session.auditor.draws.note(call)
        if call.name in READINGS and call.phase != "optimizer":
            with session.looking():
                session.tripwires.skips.value_read(call)

    def call_failed(
        self, call: Call, func: Any, args: Any, kwargs: Any, exception: Exception
    ) -> None:
        # A failure within a fetch is explained when the fetch has failed, with the samples
        # available.
        if call.phase == "data" or is_interrupt(exception):
            return
        session = self.session
        frames = frames_outside(exception)
        tensors = refused_operands(func, args, kwargs)
        session.explain(
            exception,
            lambda: (
                (session.bad_operand(exception, tensors) if tensors else [])
                or session.explainer.failed_call(call, func, args, kwargs, exception, frames)
            ),
        )
