"""Inputs and labels that are built group by group, in different orders of the groups."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import islice

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.lineage.loops.keys import Course, course_of, orders_apart
from whence.lineage.loops.pairings import given_to, without_common_index
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.telling import silent_finding
from whence.source.spots import Spot
from whence.source.text import function_node

PATIENCE = 6.0
MOST_PAIRS = 4
MOST_CALLS = 64

Paired = tuple[ast.expr, ast.expr, ast.AST, str]
"""Two sequences as written, the function that contains them, and its file."""


def compared_on_tape(audit: Audit) -> Iterator[Paired]:
    """The input of a model and the target of its prediction, if one recorded line has both."""
    for call in islice(reversed(audit.tape.calls), MOST_CALLS):
        first, second = call.operands if len(call.operands) == 2 else (None, None)
        if (
            first is None
            or second is None
            or first.requires_grad == second.requires_grad
            or call.site is None
        ):
            continue
        node, scope = call.site.node(), function_node(call.site)
        given = given_to(node, scope) if isinstance(node, ast.Call) and scope is not None else None
        if (
            given is not None
            and isinstance(node, ast.Call)
            and len(node.args) > 1
            and scope is not None
        ):
            yield *without_common_index(given, node.args[1]), scope, call.site.filename


def misaligned_keys(audit: Audit, paired: Iterable[Paired], symptom: Spot | None) -> Finding | None:
    """Run the preparation again and compare the keys that two sequences are built from."""
    pairs = [each for each in (_courses(*each) for each in paired) if each is not None][:MOST_PAIRS]
    try:
        apart = (
            run_in_child(lambda: orders_apart(pairs, audit.frames), PATIENCE, need=Need.PREPARATION)
            if pairs
            else None
        )
    except NotPossible:
        return None
    if apart is None:
        return None
    (one, other), keys = pairs[apart.pair], (apart.ones, apart.others)
    if (one.statement.lineno, other.has_groups) > (other.statement.lineno, one.has_groups):
        (one, other), keys = (other, one), (apart.others, apart.ones)
    return silent_finding(
        audit,
        "data/misaligned",
        spot=Spot.of_node(other.filename, other.statement),
        symptom=symptom,
        step=audit.step,
        phase="data",
        verdict=f"{one.name} and {other.name} are in different orders: {', '.join(keys[0])}, ... "
        f"and {', '.join(keys[1])}, ...",
        what=f"{apart.wrong} of {apart.size} elements are paired with an element of another key",
        why="Both are built from the same keys, but in different orders: groupby sorts by key, "
        "other code keeps the order of first occurrence.",
        fix=f"Iterate over the keys once for both, or look up {other.name} by the keys of "
        f"{one.name}.",
        counterfactual="the preparation was run again in a child process, and the keys were "
        "compared",
    )


def _courses(
    one: ast.expr, other: ast.expr, scope: ast.AST, filename: str
) -> tuple[Course, Course] | None:
    first, second = course_of(one, scope, filename), course_of(other, scope, filename)
    if first is None or second is None or not (first.has_groups or second.has_groups):
        return None
    return (first, second) if first.over is not second.over else None
