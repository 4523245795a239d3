"""Clipping that has no effect, or too much."""

from __future__ import annotations

from itertools import pairwise

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import spot_at, tell_silent
from whence.source.spots import Spot

ENOUGH = 3


@audit_rule("optimizer/ineffective-clip", Rank.CALL)
def ineffective_clip(audit: Audit) -> Finding | None:
    """Clipping happens where it has no effect.

    What happened
        Gradients are clipped after the step that used them, or before there are any.
    Why it matters
        The updates are those of unclipped gradients; the spikes that clipping was to prevent are there.
    How it is detected
        The order of backward, clip and step: between backward and step there is no clip, and each clip comes when nothing uses
        its gradients any more.
    How to fix it
        Clip between backward and step.
    When it stays silent
        If at least one step used clipped gradients; norms that are only measured (an infinite limit).
    Cost
        One entry a call in the first 200 steps.
    """
    if "optimizer/discarded-gradient" in audit.told:
        return None
    for entry in audit.built:
        story = audit.loop.story_of(entry)
        clips = [each for each in story if each.kind is Kind.CLIP]
        if len(clips) < ENOUGH or any(each.detail["limit"] in (None, float("inf")) for each in clips):
            continue
        useful, clipped, steps = 0, False, 0
        for each in story:
            if each.kind is Kind.CLIP:
                clipped = not each.detail["empty"]
            elif each.kind in (Kind.BACKWARD, Kind.CLEAR):
                clipped = False
            elif each.kind is Kind.STEP:
                useful += clipped
                steps += 1
                clipped = False
        if useful or steps < ENOUGH or clips[-1].site is None:
            continue
        return tell_silent(
            audit,
            "optimizer/ineffective-clip",
            spot=Spot.of_site(clips[-1].site),
            symptom=spot_at(next(each.site for each in reversed(story) if each.kind is Kind.STEP)),
            step=clips[-1].step,
            op="clip_grad_norm_",
            phase="backward",
            severity=Severity.WARNING,
            confidence=Confidence.PROVEN,
            verdict="gradients are clipped when no step uses them any more",
            what=f"{steps} steps, none with clipped gradients",
            why="A step uses the gradients as they are when it is called. Here the clip comes at another time: after the step, or before backward.",
            fix="Clip between backward and step.",
        )
    return None


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
        The order of scale, backward, clip and unscale.
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
            for one, other in pairwise(each for each in story if each.kind is not Kind.BACKWARD)
            if one.kind is Kind.CLIP and other.kind is Kind.UNSCALE
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
            what=f"their norm is {norm:.4g}" if norm is not None else "the limit is compared with scaled gradients",
            why=f"The limit of {clip.detail['limit']} is compared with gradients that are {scale:g} times too large; unscaling then divides what is left by as much.",
            fix="Call scaler.unscale_(optimizer) before the clip.",
        )
    return None
