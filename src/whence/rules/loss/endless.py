"""A loss that falls without bound: an unbounded objective is minimised instead of maximised."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from itertools import pairwise

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.rules.nonfinite.telling import number_text, trip_finding
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding
from whence.source.definitions import find_definition
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, text_of
from whence.tape.trip import Trip

ID = "loss/sign"
BOTTOMLESS = 1e3
"""How far below zero, relative to its first value, a loss must be when it overflows."""
ABSURDLY = 1e6
"""The same for a loss that is still finite."""
SUDDENLY, FEWEST, LATELY = 4, 16, 8
"""Losses needed before an overflow, losses needed without one, and recent losses to compare."""
WHY = (
    "The optimizer minimises the loss. A log-likelihood, a reward or a score that should grow "
    "has no lower bound, so each step makes it smaller until it overflows."
)
FIX = "Minimise the negative of the objective, if it is a likelihood, a reward or a score."


def fell_without_bound(trip: Trip) -> Finding | None:
    """Explain an overflow by losses that were negative, ever larger, and smallest at the end."""
    known = _fall(trip.losses, BOTTOMLESS, SUDDENLY)
    at = trip.stack[0] if trip.stack else None
    if known is None or at is None:
        return None
    made = _made(at)
    return trip_finding(
        trip,
        ID,
        spot=made or Spot.of_site(at),
        verdict=f"the loss falls without bound: {known}, then it overflows",
        why=WHY,
        fix=FIX,
        patch=_negated(made),
        confidence=Confidence.LIKELY,
        replayed=False,
    )


@audit_rule(ID, Rank.GENERAL)
def falls_without_bound(audit: Audit) -> Finding | None:
    """The same while the loss is finite."""
    known = _fall(audit.losses, ABSURDLY, FEWEST) if audit.final else None
    backwards = [each for each in audit.loop.of(Kind.BACKWARD) if each.stack]
    if known is None or not backwards:
        return None
    at = backwards[-1].stack[0]
    made = _made(at)
    return silent_finding(
        audit,
        ID,
        spot=made or Spot.of_site(at),
        symptom=Spot.of_site(at),
        step=audit.step,
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"the loss falls without bound: {known}",
        what="the loss has no lower bound",
        why=WHY,
        fix=FIX,
        patch=_negated(made),
    )


def _fall(losses: Sequence[float], times: float, fewest: int) -> str | None:
    """The first and last loss, if it kept falling. Batches differ, so single losses may rise."""
    finite = [each for each in losses if math.isfinite(each)]
    if len(finite) < fewest:
        return None
    first, last, lately = finite[0], finite[-1], finite[-LATELY:]
    falls = sum(after < before for before, after in pairwise(lately))
    if (
        last > -times * (1 + abs(first))
        or max(finite[len(finite) // 2 :]) > first
        or 2 * falls < len(lately)
    ):
        return None
    return f"from {number_text(first)} to {number_text(last)}"


def _made(site: Site) -> Spot | None:
    """The expression last assigned to the variable that backward is called on."""
    scope = function_node(site)
    calls = (
        [each for each in ast.walk(scope) if isinstance(each, ast.Call)]
        if scope is not None
        else []
    )
    losses = [
        each.func.value
        for each in calls
        if isinstance(each.func, ast.Attribute)
        and each.func.attr == "backward"
        and isinstance(each.func.value, ast.Name)
        and each.lineno <= site.f_lineno
    ]
    loss = max(losses, key=lambda each: each.lineno, default=None)
    definition = (
        find_definition(loss.id, scope, loss) if loss is not None and scope is not None else None
    )
    value = definition.value if definition is not None else None
    return Spot.of_node(site.filename, value) if value is not None else None


def _negated(made: Spot | None) -> str | None:
    """A diff for a single term. With several terms, the one with the wrong sign is unknown."""
    node = made.node() if made is not None else None
    if made is None or not isinstance(node, ast.Name | ast.Call | ast.Attribute):
        return None
    return diff_of(replace_node(made.filename, node, f"-{text_of(made.filename, node)}"))
