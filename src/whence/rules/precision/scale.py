"""GradScaler mistakes: gradients clipped before they are unscaled, and a scale that collapses."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import pairwise

from whence.finding import Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.rules.precision.by_hand import clipped_manually
from whence.rules.rule import Rank, audit_rule, trip_rule, trip_rules
from whence.rules.telling import silent_finding, spot_at
from whence.source.edits import diff_of
from whence.source.sites import Site
from whence.source.statements import line_before
from whence.source.text import text_of
from whence.tape.trip import ScaleFall, Trip


@trip_rule("precision/scale-collapse", Rank.WHOLE)
def scale_collapse(trip: Trip) -> Finding | None:
    """The loss scale collapses.

    What happened
        A GradScaler skips a step whose gradients are not finite, and halves its scale. Here every
        step is skipped, however small the scale: the overflow does not depend on it.
    Why it matters
        No step is made any more. The program keeps running and learns nothing.
    How it is detected
        Ten consecutive skipped steps down to a small scale, or a scale below 1. The last of these
        steps is replayed to find where the NaN or Inf first appears.
    How to fix it
        Fix the operation that overflows. A larger initial scale or another scaler does not help.
    When it stays silent
        A few skipped steps while the scale is calibrated, or occasional ones.
    Cost
        One number per update of the scale.
    """
    fall = trip.evidence
    if not isinstance(fall, ScaleFall):
        return None
    others = (ask(trip) for ask in trip_rules() if ask is not scale_collapse)
    cause = next((found for found in others if found is not None), None)
    if cause is None:
        return None
    return replace(
        cause,
        rule="precision/scale-collapse",
        severity=Severity.ERROR,
        verdict=f"the loss scale fell from {fall.before:g} to {fall.now:g} in {fall.steps} "
        f"consecutive skipped steps: {cause.verdict}",
        why=f"{cause.why} The GradScaler takes this for a scale that is too large: it skips the "
        "step and halves the scale every time.",
    )


@audit_rule("precision/clip-before-unscale", Rank.CAUSE)
def clip_before_unscale(audit: Audit) -> Finding | None:
    """Scaled gradients are clipped.

    What happened
        A GradScaler multiplies the loss, so gradients are too large by that factor until they are
        unscaled. They were clipped before that.
    Why it matters
        The limit is compared with gradients that are thousands of times too large. After unscaling
        almost nothing is left, and training nearly stops.
    How it is detected
        From the order of scale, backward, clip and unscale. For a hand-written clip: gradients are
        multiplied by a factor computed from gradients, or clamped.
    How to fix it
        Call scaler.unscale_(optimizer) before the clip.
    When it stays silent
        A scaler that is disabled, or a scale of 1.
    Cost
        One entry per call in the first 200 steps.
    """
    for entry in audit.built:
        story = audit.loop.story_of(entry)
        scales = [each for each in audit.loop.of(Kind.SCALE) if each.detail["scale"] > 2.0]
        found = [
            (one, other)
            for (before, one), (_, other) in pairwise(pairwise(story))
            if (before.kind, one.kind, other.kind) == (Kind.BACKWARD, Kind.CLIP, Kind.UNSCALE)
        ]
        if len(found) < 2 or not scales or found[-1][0].site is None:
            continue
        clip = found[-1][0]
        norm = clip.detail["norm"]
        scale = scales[-1].detail["scale"]
        return silent_finding(
            audit,
            "precision/clip-before-unscale",
            spot=spot_at(clip.site),
            symptom=spot_at(found[-1][1].site),
            step=clip.step,
            op="clip_grad_norm_",
            phase="backward",
            verdict=f"gradients are clipped before they are unscaled (loss scale {scale:g})",
            what=f"the norm of the scaled gradients is {norm:.4g}"
            if norm is not None
            else "the limit is compared with scaled gradients",
            why=f"The limit of {clip.detail['limit']} is compared with gradients that are "
            f"{scale:g} times too large. Unscaling then divides the clipped gradients by the same "
            "factor.",
            fix="Call scaler.unscale_(optimizer) before the clip.",
            patch=_unscaled_first(clip.site, found[-1][1].site),
        )
    return clipped_manually(audit)


def _unscaled_first(clip: Site | None, step: Site | None) -> str | None:
    """Insert `scaler.unscale_(optimizer)`, with the names in `scaler.step(optimizer)`."""
    node, statement = (
        step.node() if step is not None else None,
        clip.statement() if clip is not None else None,
    )
    if clip is None or step is None or clip.f_code is not step.f_code or statement is None:
        return None
    match node:
        case ast.Call(func=ast.Attribute(value=scaler, attr="step"), args=[optimizer, *_]):
            words = (
                f"{text_of(clip.filename, scaler)}.unscale_({text_of(clip.filename, optimizer)})"
            )
            return diff_of(line_before(clip.filename, statement, words))
    return None
