"""A step that the program contains but never reaches."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.ledgers.loop import OptimizerEntry
from whence.rules.optimizer.edits import names_of
from whence.rules.telling import silent_finding
from whence.source.blocks import LOOPS, statements_around
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import last_name, text_of, tree_of


def step_not_reached(
    audit: Audit, entry: OptimizerEntry, backward: Site, *, passes: int
) -> Finding | None:
    """Report an existing step that is never reached, instead of suggesting another."""
    step = next(_written(audit, entry, backward.filename), None)
    if step is None:
        return None
    guard = _guard(step, backward)
    test = text_of(backward.filename, guard.test) if guard is not None else ""
    counts = guard is not None and any(isinstance(each, ast.Mod) for each in ast.walk(guard.test))
    return silent_finding(
        audit,
        "optimizer/no-update",
        spot=Spot.of_node(backward.filename, guard.test if guard is not None else step),
        symptom=Spot.of_site(backward),
        step=audit.step,
        op="step",
        phase="optimizer",
        verdict=f"{entry.kind}.step is never reached: no weight changes"
        if guard is None
        else f"{entry.kind}.step is never reached because `{test}` is never true: no weight "
        "changes",
        what=f"{passes} backward passes, no step of this optimizer",
        why="backward only computes gradients. The weights change when the optimizer's step uses "
        "them."
        + (
            " The count never reaches a multiple: the loop ends, or resets the count, before that."
            if counts
            else ""
        ),
        fix="Step at least once in each run of the loop: also for the incomplete window at its "
        "end, or after fewer batches."
        if counts
        else "Check the path to the step, or call step() after backward.",
    )


def _written(audit: Audit, entry: OptimizerEntry, filename: str) -> Iterator[ast.Call]:
    """Calls of `optimizer.step()` or `scaler.step(optimizer)`, by a name of the optimizer."""
    names = {name.rpartition(".")[2] for name, _ in names_of(audit, entry, filename)}
    tree = tree_of(filename)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="step"), args=given):
                if names & {last_name(each) for each in (owner, *given)}:
                    yield node


def _guard(step: ast.Call, backward: Site) -> ast.If | None:
    """The condition around the step, but not around the backward, within their common loop."""
    around, there = statements_around(step), backward.statement()
    shared = statements_around(there) if there is not None else []
    if there is not None and not any(isinstance(each, LOOPS) for each in around if each in shared):
        shared = []
    return next(
        (
            each
            for each in around
            if isinstance(each, ast.If)
            and each not in shared
            and any(step in ast.walk(one) for one in each.body)
        ),
        None,
    )
