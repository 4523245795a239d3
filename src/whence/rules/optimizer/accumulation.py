"""Gradients that are accumulated over several batches before one step."""

from __future__ import annotations

import ast

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind
from whence.rules.operations import LOSSES
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding, spot_at
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot

ENOUGH = 3


@audit_rule("optimizer/unscaled-accumulation", Rank.GENERAL)
def unscaled_accumulation(audit: Audit) -> Finding | None:
    """Accumulated losses are not averaged.

    What happened
        Gradients of several batches are accumulated before one step, and each loss is a mean over
        its own batch. The sum is N times the gradient of one large batch, for N accumulated
        batches.
    Why it matters
        The effective learning rate is N times larger, and changes with N. Adam hides most of it.
    How it is detected
        The same number of backward passes at one line before each step, over the same weights, with
        losses that are means and are not divided by that number.
    How to fix it
        Divide each loss: (loss / N).backward().
    When it stays silent
        For losses that are divided or summed, several losses of one batch, and varying N. It is a
        note: the learning rate may have been chosen for the sum.
    Cost
        One entry per call in the first 200 steps.
    """
    for entry in audit.built:
        story = audit.loop.story_of(entry)
        groups: list[list[Event]] = [[]]
        for each in story:
            if each.kind is Kind.BACKWARD:
                groups[-1].append(each)
            elif each.kind is Kind.STEP:
                groups.append([])
        done = [group for group in groups[:-1] if group]
        sizes = {len(group) for group in done}
        if len(done) < ENOUGH or len(sizes) != 1 or (count := sizes.pop()) < 2:
            continue
        backward = done[-1][-1]
        alike = all(
            each.site == backward.site and each.written == backward.written
            for group in done
            for each in group
        )
        if not alike or backward.site is None or not _is_mean(audit, backward, count):
            continue
        return silent_finding(
            audit,
            "optimizer/unscaled-accumulation",
            spot=Spot.of_site(backward.site),
            symptom=spot_at(next(each.site for each in reversed(story) if each.kind is Kind.STEP)),
            step=backward.step,
            op="backward",
            phase="backward",
            severity=Severity.INFO,
            confidence=Confidence.HINT,
            verdict=f"{count} mean losses are accumulated before each step without dividing by "
            f"{count}",
            what=f"each update uses {count} times the mean gradient",
            why="Each loss is a mean over its batch. The sum of the losses is not the mean over "
            "all batches.",
            fix=f"Divide each loss, (loss / {count}).backward(), or choose the learning rate for "
            "the sum.",
            patch=_divided(backward.site, count),
        )
    return None


def _divided(site: Site, count: int) -> str | None:
    match site.node():
        case ast.Call(func=ast.Attribute(value=loss, attr="backward")):
            return diff_of(
                replace_node(
                    site.filename, loss, f"({in_parentheses(site.filename, loss)} / {count})"
                )
            )
    return None


def _is_mean(audit: Audit, backward: Event, count: int) -> bool:
    """Whether the last loss at this backward is a mean without a factor."""
    calls = [
        call
        for call in audit.tape.calls
        if call.name == "backward" and call.site == backward.site and call.operands
    ]
    made = calls[-1].operands[0].call if calls else None
    if made is None:
        return False
    if made.name in LOSSES:
        return bool(made.kwargs.get("reduction", "mean") == "mean")
    return made.name == "mean" and count > 1
