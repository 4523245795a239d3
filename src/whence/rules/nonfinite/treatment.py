"""Several local fixes together: where one is not enough, the remaining NaN has another origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from whence.lineage.births import Contents, find_birth
from whence.rules.nonfinite.remedies import Remedy, is_same_line, remedy_for
from whence.rules.nonfinite.telling import loss_text
from whence.source.edits import diff_of
from whence.tape.replay import Run, Unreplayable
from whence.tape.tape import Call, Value
from whence.tape.trip import Trip

MOST_REMEDIES = 3


@dataclass(frozen=True, slots=True)
class Treatment:
    """The calls with their remedies, and the loss with all of them applied."""

    parts: tuple[tuple[Call, Remedy], ...]
    outcome: torch.Tensor | None = None

    @property
    def words(self) -> str:
        words = [remedy.words(call).removeprefix("with ") for call, remedy in self.parts]
        return f"with {' and '.join(dict.fromkeys(words))}" + (
            f", in {len(words)} places" if len(words) > 1 else ""
        )

    @property
    def patch(self) -> str | None:
        return diff_of(*(remedy.edit(call) for call, remedy in self.parts))

    def alter(self, each: Call, args: Any, kwargs: Any) -> tuple[Any, Any]:
        for call, remedy in self.parts:
            args, kwargs = remedy.alter(call)(each, args, kwargs)
        return args, kwargs


def treat(trip: Trip, call: Call, remedy: Remedy) -> Treatment | None:
    """Replay the step with a remedy, adding more until the loss is finite."""
    treatment = Treatment(((call, remedy),))
    for _ in range(MOST_REMEDIES):
        try:
            run = trip.again(alter=treatment.alter)
        except (Unreplayable, RuntimeError, TypeError):
            return None
        outcome = trip.outcome(run)
        if loss_text(outcome) is not None:
            return Treatment(treatment.parts, outcome)
        further = _further(trip, run)
        if further is None or any(is_same_line(further[0], known) for known, _ in treatment.parts):
            return None
        treatment = Treatment((*treatment.parts, further))
    return None


def _further(trip: Trip, run: Run) -> tuple[Call, Remedy] | None:
    """The next call that gives NaN or Inf in a run, and its remedy."""
    plan, contents = trip.plan, Contents(trip.tape, run)
    if plan is None or trip.target is None or run.raised is not None:
        return None

    def is_leaf(value: Value) -> bool:
        return value.call not in plan.calls

    call = find_birth(trip.target, contents, is_leaf).call
    if call is None:
        return None
    remedy = remedy_for(
        call, [each for value in call.operands if (each := contents.of(value)) is not None]
    )
    return (call, remedy) if remedy is not None else None
