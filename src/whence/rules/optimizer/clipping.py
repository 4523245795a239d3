"""Clipping that has no effect, or too much."""

from __future__ import annotations

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
        if not any(each.kind is Kind.BACKWARD for each in story):
            # There are none to clip at any time.
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
