"""Groups of weights whose rate is so far below that of the others that they stand still."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.facts import chosen_rate
from whence.rules.telling import tell_silent
from whence.source.spots import Spot

ENOUGH = 48
APART = 1e-4
"""Of the highest rate: parts that are to learn more slowly are given a tenth, a hundredth, at times a thousandth."""
STANDS = 1e-5
MOVES = 1e-3
"""How far weights have come from where they were, as a share of their size."""


def groups_that_stand_still(audit: Audit) -> Finding | None:
    """One optimizer, and rates that are far apart. Asked in the end: a group may be let loose later."""
    if not audit.final:
        return None
    for entry in audit.built:
        optimizer = entry.optimizer
        if (
            optimizer is None
            or entry.steps < ENOUGH
            or not entry.stack
            or len(optimizer.param_groups) < 2
        ):
            continue
        rates = {number: _highest(group) for number, group in enumerate(optimizer.param_groups)}
        top = max(rates.values())
        low = {number: rate for number, rate in rates.items() if 0 < rate <= APART * top}
        moved = {
            number: list(_moved(audit, group))
            for number, group in enumerate(optimizer.param_groups)
        }
        still = {
            number: rate
            for number, rate in low.items()
            if moved[number] and max(moved[number]) < STANDS
        }
        if not still or max((each for one in moved.values() for each in one), default=0.0) < MOVES:
            continue
        least, most = min(still.values()), max(still.values())
        told = f"{least:g}" if least == most else f"{least:g} to {most:g}"
        return tell_silent(
            audit,
            "optimizer/learning-rate-low",
            spot=Spot.of_site(entry.stack[0]),
            step=audit.step,
            op=entry.kind,
            phase="optimizer",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"{len(still)} of {len(rates)} groups of weights stand still: their learning rate is {told}, beside {top:g}",
            what=f"after {entry.steps} steps with gradients their weights are where they were, to within "
            f"{max(each for number in still for each in moved[number]):.0e} of their size",
            why="An update that is smaller than the last digit of a weight changes nothing; these are hardly larger, or smaller than that.",
            fix="Give each group a rate that moves it; a factor that is raised to the number of a layer is soon next to nothing. "
            "What is to stay as it is says so better with requires_grad_(False).",
        )
    return None


def _highest(group: dict[str, Any]) -> float:
    """A schedule may have lowered it, or not have raised it yet."""
    now = group.get("lr")
    return max(chosen_rate(group) or 0.0, float(now) if isinstance(now, int | float) else 0.0)


def _moved(audit: Audit, group: dict[str, Any]) -> Iterator[float]:
    """How far those weights of a group have moved that had gradients; those that began at zero have no size to compare with."""
    for weight in group["params"]:
        known = audit.weights.entry_of(weight)
        if known is not None and known.gradients and bool(known.first.any()):
            yield known.moved()
