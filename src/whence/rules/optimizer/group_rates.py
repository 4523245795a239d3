"""Parameter groups that do not move: their learning rate is far below that of the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.facts import chosen_rate
from whence.rules.telling import silent_finding
from whence.source.spots import Spot

ENOUGH = 48
APART = 1e-4
"""Relative to the highest learning rate: intended factors are 0.1 or 0.01, rarely 0.001."""
STANDS = 1e-5
MOVES = 1e-3
"""How far weights have moved from their start, relative to their size."""


def unmoved_groups(audit: Audit) -> Finding | None:
    """Report learning rates that are far apart; only at the end, as groups may start later."""
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
        shown = f"{least:g}" if least == most else f"{least:g} to {most:g}"
        return silent_finding(
            audit,
            "optimizer/learning-rate-low",
            spot=Spot.of_site(entry.stack[0]),
            step=audit.step,
            op=entry.kind,
            phase="optimizer",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"{len(still)} of {len(rates)} parameter groups do not move: learning rate "
            f"{shown}, the highest is {top:g}",
            what=f"after {entry.steps} steps with gradients their weights have moved by at most "
            f"{max(each for number in still for each in moved[number]):.0e} of their size",
            why="An update below the rounding error of a weight changes nothing. The updates of "
            "these groups are about that small.",
            fix="Raise the learning rate of these groups. A decay factor to the power of the "
            "layer index quickly becomes negligible. Freeze weights that should not change with "
            "requires_grad_(False).",
        )
    return None


def _highest(group: dict[str, Any]) -> float:
    """The current or the configured learning rate: a schedule may have lowered it or not begun."""
    now = group.get("lr")
    return max(chosen_rate(group) or 0.0, float(now) if isinstance(now, int | float) else 0.0)


def _moved(audit: Audit, group: dict[str, Any]) -> Iterator[float]:
    """How far the weights of a group with gradients have moved, unless they started at zero."""
    for weight in group["params"]:
        known = audit.weights.entry_of(weight)
        if known is not None and known.gradients and bool(known.first.any()):
            yield known.moved()
