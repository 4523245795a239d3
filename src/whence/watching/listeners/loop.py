"""The loop listener: clearing, clipping, scheduling, modes, saving and loading of weights."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from whence.devices import reads_are_free
from whence.ledgers.loop import Kind
from whence.source.interrupts import is_interrupt
from whence.source.sites import Site, frames_outside
from whence.torch_internals import are_transforms_active
from whence.watching.listeners.listener import Listener


class LoopListener(Listener):
    def loop_event(
        self, kind: Kind, stack: tuple[Site, ...], args: Any, kwargs: Any, result: Any
    ) -> None:
        session = self.session
        if session.is_looking or are_transforms_active():
            return
        if (
            session.routine.on
            and kind is Kind.SCHEDULE
            and session.auditor.schedules.is_under_way(args[0])
        ):
            session.auditor.scheduled(args[0], stack, _metric(args, kwargs))
            return
        with session.looking():
            if session.auditor.rounds.open:
                session.goes_by()
            if kind is Kind.CLEAR:
                # A manual update happened before this without any event.
                session.hand.look()
            if kind is Kind.RESCALE:
                session.tripwires.scale_ends(args[0], stack)
            elif kind is Kind.SCHEDULE:
                session.auditor.scheduled(args[0], stack, _metric(args, kwargs))
            else:
                session.auditor.event(kind, stack, args, kwargs, result)
            if kind is Kind.SCHEDULE and getattr(args[0], "last_epoch", None) == 0:
                # A scheduler makes its first step in its constructor.
                session.explainer.builds.note(args[0], stack)

    def refused(self, exception: Exception) -> None:
        """Explain a PyTorch method, written in Python, that rejects its arguments."""
        if is_interrupt(exception) or are_transforms_active():
            return
        session = self.session
        outer = frames_outside(exception)
        state: dict[str, Any] = {"scope": None, "step": session.step, "phase": "program"}
        session.explain(exception, lambda: session.explainer.traceback(exception, outer, **state))


def _metric(args: Any, kwargs: Any) -> float | None:
    """The metric of a `ReduceLROnPlateau` step, which has read the value itself by now."""
    given = args[1] if len(args) > 1 else kwargs.get("metrics")
    if not isinstance(args[0], ReduceLROnPlateau):
        return None
    if isinstance(given, torch.Tensor):
        return (
            float(given.detach()) if given.numel() == 1 and reads_are_free(given.device) else None
        )
    return float(given) if isinstance(given, Real) else None
