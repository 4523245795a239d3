"""A schedule that ends before training does, and then raises."""

from __future__ import annotations

import ast
from typing import Any

from torch.optim.lr_scheduler import LRScheduler

from whence.finding import Confidence, Finding, Severity
from whence.lineage.following.found import Found
from whence.lineage.following.trace import SourceTrace
from whence.lineage.grounds import ground_of
from whence.lineage.loops.turns import Rounds, rounds_of
from whence.lineage.properties import IsNumber
from whence.rules.refusals import refusing
from whence.rules.rule import Rank, rule
from whence.rules.telling import failure_finding
from whence.source.edits import diff_of, replace_node
from whence.source.handlers import Fate
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import enclosing, text_of
from whence.tape.builds import Build
from whence.tape.failed import FailedCall

POSITIONS = {"total_steps": 2, "epochs": 3, "steps_per_epoch": 4}


@rule("optimizer/schedule", Rank.CAUSE)
def horizon(failed: FailedCall) -> Finding | None:
    """The form that raises: OneCycleLR after its last step."""
    names = refusing(failed, LRScheduler, "get_lr", "step")
    scheduler = names["self"] if names is not None else None
    planned, made = getattr(scheduler, "total_steps", None), getattr(scheduler, "last_epoch", None)
    if not isinstance(planned, int) or not isinstance(made, int) or made <= planned:
        return None
    rounds = rounds_of(failed.call.stack, failed.frames)
    build = failed.builds.of(scheduler)
    found = _where_given(failed, build, planned, rounds)
    constructor = Spot.of_site(build.stack[0]) if build is not None and build.stack else None
    total = rounds.total
    known = total is not None and total > planned
    reason, is_floored = _reason(planned, rounds)
    spot = found.spot or constructor
    kind = type(scheduler).__name__
    return failure_finding(
        failed,
        "optimizer/schedule",
        verdict=f"{kind} was built for {planned} steps, but the loop makes "
        f"{total if known else 'more'}: step {made} raises",
        spot=spot,
        chain=found.hops,
        why=f"{reason} {kind} defines no learning rate after its last step.",
        fix="Count the steps that the loop makes: epochs * len(loader), where len(loader) is "
        "rounded up unless drop_last is set (divided by the accumulation count, if the scheduler "
        "is stepped once for several batches).",
        patch=_rounded_up(spot) if is_floored else None,
        confidence=Confidence.PROVEN if known else Confidence.LIKELY,
        # A program that catches it around the step intends to train past the end.
        severity=Severity.INFO
        if failed.fate is Fate.CAUGHT and _is_tried(failed.site)
        else Severity.ERROR,
    )


def _is_tried(site: Site | None) -> bool:
    node = site.node() if site is not None else None
    return node is not None and enclosing(node, ast.Try) is not None


def _reason(planned: int, rounds: Rounds) -> tuple[str, bool]:
    """Why there are more steps than planned, and whether a short last batch is uncounted."""
    total = rounds.total
    if total is None or total <= planned:
        return "The scheduler is stepped more often than planned.", False
    last = rounds.loops[-1]
    batches = last.count or 1
    epochs = total // (last.times or 1)
    loop = f"The loop runs {epochs} epochs of {batches} batches, which is {total} steps."
    if last.every > 1:
        loop = (
            f"The loop runs {epochs} epochs of {batches} batches and steps once every "
            f"{last.every}, which is {total} steps."
        )
        if last.at_end and planned == epochs * batches // last.every:
            return (
                f"{loop} The incomplete window at the end of each epoch makes a step too, which "
                "the schedule does not count.",
                False,
            )
        return loop, False
    if planned == epochs * (batches - 1) and _has_short_batch(rounds.loops[-1].loader):
        return (
            f"{loop} The schedule counts {batches - 1} batches per epoch: the last, shorter batch "
            "was rounded off.",
            True,
        )
    if planned == epochs and batches > 1:
        return (
            f"{loop} The schedule counts epochs, but the scheduler is stepped for every batch.",
            False,
        )
    if planned == batches:
        return f"{loop} The schedule counts the batches of one epoch only.", False
    if planned % batches == 0:
        return f"{loop} The schedule counts {planned // batches} epochs.", False
    if total // planned > 1:
        return (
            f"{loop} That is {total / planned:.3g} times the planned number: the schedule counts "
            "something other than its steps.",
            False,
        )
    return loop, False


def _has_short_batch(loader: Any) -> bool:
    try:
        size = loader.batch_size
        return bool(size and not loader.drop_last and len(loader.dataset) % size)
    except (AttributeError, TypeError):
        return False


def _where_given(failed: FailedCall, build: Build | None, planned: int, rounds: Rounds) -> Found:
    """Where the number of steps that the scheduler was built with was computed."""
    node = build.stack[0].node() if build is not None and build.stack else None
    if build is None or not isinstance(node, ast.Call):
        return Found()
    given = {
        name: argument
        for name, position in POSITIONS.items()
        if (argument := _argument(node, position, name)) is not None
        and not (isinstance(argument, ast.Constant) and argument.value is None)
    }
    batches = rounds.loops[-1].count if rounds.loops else None
    count: int | None = planned
    name = "total_steps"
    if name not in given:
        # The factor that differs from the loop's is the wrong one.
        by_epochs = batches is not None and planned % batches == 0
        name, count = (
            ("epochs", planned // batches) if by_epochs and batches else ("steps_per_epoch", None)
        )
    if name not in given:
        return Found()
    return SourceTrace(IsNumber(count), failed.frames).follow(
        given[name], ground_of(build.stack, failed.frames)
    )


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    named = next((each.value for each in call.keywords if each.arg == name), None)
    return (
        named if named is not None else call.args[position] if position < len(call.args) else None
    )


def _rounded_up(spot: Spot | None) -> str | None:
    """`n // size` becomes `-(-n // size)`, if there is exactly one such division."""
    node = spot.node() if spot is not None else None
    found = [
        each
        for each in (ast.walk(node) if node is not None else ())
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.FloorDiv)
    ]
    if spot is None or len(found) != 1:
        return None
    left, right = (text_of(spot.filename, each) for each in (found[0].left, found[0].right))
    left = (
        left
        if isinstance(found[0].left, ast.Name | ast.Call | ast.Attribute | ast.Subscript)
        else f"({left})"
    )
    return diff_of(replace_node(spot.filename, found[0], f"-(-{left} // {right})"))
