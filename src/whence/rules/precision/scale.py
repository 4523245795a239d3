"""The scale of a GradScaler: gradients clipped while it is still on them, and a scale that falls to nothing."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import pairwise

from whence.finding import Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.rules.precision.by_hand import clipped_by_hand
from whence.rules.rule import Rank, audit_rule, trip_rule, trip_rules
from whence.rules.telling import spot_at, tell_silent
from whence.source.edits import diff_of
from whence.source.sites import Site
from whence.source.statements import line_before
from whence.source.text import text_of
from whence.tape.trip import ScaleFall, Trip


@trip_rule("precision/scale-collapse", Rank.WHOLE)
def scale_collapse(trip: Trip) -> Finding | None:
    """The loss scale collapses.

    What happened
        A GradScaler skips a step whose gradients are not finite, and halves its scale. Here every step is skipped, however small the
        scale: what overflows does not depend on it.
    Why it matters
        No step is made any more. The program runs on and learns nothing.
    How it is detected
        Ten skipped steps in a row down to a small scale, or a scale below one. The last of these steps is replayed: where was the NaN or
        Inf born?
    How to fix it
        Mend the operation that overflows. A larger scale to begin with, or another scaler, changes nothing.
    When it stays silent
        A few skipped steps while the scale is being found, or now and then.
    Cost
        One number for each update of the scale.
    """
    fall = trip.evidence
    if not isinstance(fall, ScaleFall):
        return None
    others = (ask(trip) for ask in trip_rules() if ask is not scale_collapse)
    born = next((found for found in others if found is not None), None)
    if born is None:
        return None
    return replace(
        born,
        rule="precision/scale-collapse",
        severity=Severity.ERROR,
        verdict=f"the loss scale fell from {fall.before:g} to {fall.now:g}, {fall.steps} steps in a row were skipped: {born.verdict}",
        why=f"{born.why} A GradScaler takes that for a scale that is too large, skips the step and halves the scale, for ever.",
    )


@audit_rule("precision/clip-before-unscale", Rank.CAUSE)
def clip_before_unscale(audit: Audit) -> Finding | None:
    """Scaled gradients are clipped.

    What happened
        A GradScaler multiplies the loss, so that gradients are as many times too large until they are unscaled. They were clipped
        before that.
    Why it matters
        The limit is compared with gradients that are thousands of times too large: after unscaling nearly nothing is left, and
        training all but stops.
    How it is detected
        The order of scale, backward, clip and unscale. A clip that the program makes itself: gradients are multiplied by what was computed
        from gradients, or cut at a limit.
    How to fix it
        scaler.unscale_(optimizer) before the clip.
    When it stays silent
        A scaler that is switched off, or a scale of one.
    Cost
        One entry a call in the first 200 steps.
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
        return tell_silent(
            audit,
            "precision/clip-before-unscale",
            spot=spot_at(clip.site),
            symptom=spot_at(found[-1][1].site),
            step=clip.step,
            op="clip_grad_norm_",
            phase="backward",
            verdict=f"gradients are clipped while they are still multiplied by the loss scale ({scale:g})",
            what=f"their norm is {norm:.4g}"
            if norm is not None
            else "the limit is compared with scaled gradients",
            why=f"The limit of {clip.detail['limit']} is compared with gradients that are {scale:g} times too large; unscaling then divides what is left by as much.",
            fix="Call scaler.unscale_(optimizer) before the clip.",
            patch=_unscaled_first(clip.site, found[-1][1].site),
        )
    return clipped_by_hand(audit)


def _unscaled_first(clip: Site | None, step: Site | None) -> str | None:
    """`scaler.step(optimizer)` has the words for it."""
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
