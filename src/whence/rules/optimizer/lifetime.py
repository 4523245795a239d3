"""Optimizers that are rebuilt, and frozen weights that change."""

from __future__ import annotations

import ast

from whence.finding import Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.rules.optimizer.edits import built_once
from whence.rules.optimizer.freezing import gradient_cleared
from whence.rules.optimizer.hoisting import built_by_the_caller, built_by_the_constructor, kept_at
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import enclosing, tree_of

ENOUGH = 3
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@audit_rule("optimizer/recreated", Rank.CALL)
def recreated(audit: Audit) -> Finding | None:
    """The optimizer is rebuilt and its state lost.

    What happened
        The optimizer is rebuilt in the loop, over the same weights: its moments and step counts
        start at zero each time.
    Why it matters
        Adam's first steps are large and badly estimated, momentum never builds up, and a scheduler
        keeps updating the old optimizer.
    How it is detected
        Several optimizers are built at one place over the same weights, with steps and state in
        between and no other change to the weights.
    How to fix it
        Build it once, before the loop.
    When it stays silent
        For optimizers of different phases, of re-initialised weights, or of other models; plain
        SGD, which has no state; cycles, each with a schedule that had brought the learning rate
        near zero before the next one began.
    Cost
        One entry for each optimizer.
    """
    counts: dict[Site, int] = {}
    for entry in audit.built:
        if entry.untouched and entry.stack:
            site = entry.stack[0]
            counts[site] = counts.get(site, 0) + 1
            if counts[site] >= ENOUGH:
                kept, again = kept_at(entry.stack), _repeated(entry.stack)
                return silent_finding(
                    audit,
                    "optimizer/recreated",
                    # An attribute is overwritten where it is set; a local variable is lost per
                    # call.
                    spot=Spot.of_site(entry.stack[kept] if kept is not None else again),
                    symptom=Spot.of_site(again if kept is not None else site),
                    step=audit.step,
                    op=entry.kind,
                    phase="optimizer",
                    severity=Severity.WARNING,
                    verdict=f"{entry.kind} is rebuilt repeatedly over the same weights and loses "
                    "its state each time",
                    what=f"built {counts[site] + 1} times so "
                    f"far{' by this line' if kept is not None else ' at this line'}",
                    why="Moments and momentum are stored in the optimizer object. A new "
                    "optimizer starts without them.",
                    fix="Build the optimizer once, before the loop.",
                    patch=built_once(site)
                    or built_by_the_constructor(entry.stack)
                    or built_by_the_caller(entry.stack),
                )
    return None


def _repeated(stack: tuple[Site, ...]) -> Site:
    """The nearest caller that is inside a loop."""
    for site in stack:
        statement = site.statement()
        around = (
            enclosing(statement, ast.For, ast.While, *FUNCTIONS) if statement is not None else None
        )
        if isinstance(around, ast.For | ast.While):
            return site
    return stack[0]


@audit_rule("optimizer/frozen-moves", Rank.CAUSE)
def frozen_moves(audit: Audit) -> Finding | None:
    """A frozen parameter still changes.

    What happened
        requires_grad is off, but the optimizer still has the weight with an old gradient, or one of
        zeros: momentum, Adam's moments and weight decay keep moving it.
    Why it matters
        The part that should stay fixed drifts away.
    How it is detected
        Weights without requires_grad that a step has changed.
    How to fix it
        Call zero_grad(set_to_none=True), or set grad = None after freezing, or build the optimizer
        without them.
    When it stays silent
        For weights that other code changes (averages).
    Cost
        A copy of frozen weights that have a gradient, in the first 200 steps and in recorded ones.
    """
    moved = next(audit.loop.of(Kind.MOVED), None)
    if moved is None:
        return None
    names = [each or "a weight" for each in moved.detail["names"]]
    return silent_finding(
        audit,
        "optimizer/frozen-moves",
        spot=Spot.of_site(moved.site) if moved.site is not None else _freezes(audit),
        symptom=Spot.of_site(audit.stack[0]) if audit.stack else None,
        step=moved.step,
        op="step",
        phase="optimizer",
        verdict="the optimizer still changes "
        f"{'a frozen weight' if len(names) == 1 else f'{len(names)} frozen weights'}: "
        f"{', '.join(names[:2])}",
        what=f"step {moved.step} changed them although requires_grad is False",
        why="Their gradients still exist (old ones or zeros). Momentum, moments and weight decay "
        "move every weight that has a gradient.",
        fix="Set their .grad to None after freezing (zero_grad() does so by default), or remove "
        "them from the optimizer.",
        patch=gradient_cleared(moved.site, names) if moved.site is not None else None,
    )


def _freezes(audit: Audit) -> Spot | None:
    """The first line that freezes weights in the running files, if none was recorded."""
    for filename in dict.fromkeys(frame.f_code.co_filename for frame in audit.frames):
        for node in ast.walk(tree_of(filename) or ast.Module([], [])):
            match node:
                case (
                    ast.Call(
                        func=ast.Attribute(attr="requires_grad_"), args=[ast.Constant(value=False)]
                    )
                    | ast.Assign(
                        targets=[ast.Attribute(attr="requires_grad")],
                        value=ast.Constant(value=False),
                    )
                ):
                    return Spot.of_node(filename, node)
    return None
