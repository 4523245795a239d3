"""Gradient clipping without effect."""

from __future__ import annotations

import ast
from itertools import takewhile

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind
from whence.rules.optimizer.iterators import iterated
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding, spot_at
from whence.source.definitions import find_definition
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.statements import move_before
from whence.source.text import enclosing, function_node, parent_of

ENOUGH = 3


@audit_rule("optimizer/ineffective-clip", Rank.CALL)
def ineffective_clip(audit: Audit) -> Finding | None:
    """Clipping happens where it has no effect.

    What happened
        Gradients are clipped after the step that used them, or before backward computes them; or
        the clip receives an exhausted iterator, or gradients instead of the weights that have them,
        so nothing is clipped.
    Why it matters
        The updates use unclipped gradients, so the spikes that clipping should prevent still occur.
    How it is detected
        The order of backward, clip and step: no clip happens between backward and step, and each
        clip comes when nothing uses its gradients any more. Or the clip received an empty iterator,
        and the source shows what consumed it.
    How to fix it
        Clip between backward and step. Keep parameters in a list if they are needed more than once.
    When it stays silent
        If at least one step used clipped gradients; for norms that are only measured (an infinite
        limit); for lists and filters that are simply empty.
    Cost
        One entry per call in the first 200 steps.
    """
    if "optimizer/discarded-gradient" in audit.told:
        return None
    without_effect = _exhausted(audit) or _of_gradients(audit)
    if without_effect is not None:
        return without_effect
    for entry in audit.built:
        story = audit.loop.story_of(entry)
        clips = [each for each in story if each.kind is Kind.CLIP]
        if len(clips) < ENOUGH or any(
            each.detail["limit"] in (None, float("inf")) for each in clips
        ):
            continue
        if not any(each.kind is Kind.BACKWARD for each in story):
            # There are no gradients to clip at any time.
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
        steps_at = [each.site for each in story if each.kind is Kind.STEP]
        return silent_finding(
            audit,
            "optimizer/ineffective-clip",
            spot=Spot.of_site(clips[-1].site),
            symptom=spot_at(steps_at[-1]),
            step=clips[-1].step,
            op="clip_grad_norm_",
            phase="backward",
            severity=Severity.WARNING,
            confidence=Confidence.PROVEN,
            verdict="gradients are clipped when no step uses them any more",
            what=f"{steps} steps, none with clipped gradients",
            why="A step uses the gradients as they are when it is called. Here the clip comes "
            "after the step, or before backward.",
            fix="Clip between backward and step.",
            patch=_before_the_step(clips[-1].site, steps_at[-1]),
        )
    return None


def _before_the_step(clip: Site, step: Site | None) -> str | None:
    """Move the clip in front of the step, if both are in one block and share its names."""
    one, other = clip.statement(), step.statement() if step is not None else None
    if one is None or other is None or step is None or parent_of(one) is not parent_of(other):
        return None
    if not isinstance(one, ast.Expr) and one.lineno < other.lineno:
        # Its result may be used before the step.
        return None
    return diff_of(*move_before(clip.filename, one, other))


def _exhausted(audit: Audit) -> Finding | None:
    """Report a clip that receives an iterator which other code has already consumed."""
    clips = [
        each
        for each in audit.loop.of(Kind.CLIP)
        if each.detail["limit"] not in (None, float("inf"))
    ]
    empty = list(takewhile(lambda each: not each.written, reversed(clips)))
    if len(empty) < ENOUGH or not all(
        each.detail["iterated"] and each.site == empty[0].site for each in empty
    ):
        return None
    found = iterated(empty[0].stack, "parameters")
    if (
        found is None
        or found.made is None
        or not (found.lines or _used_itself(clips, empty[0], found.made))
    ):
        return None
    return silent_finding(
        audit,
        "optimizer/ineffective-clip",
        spot=found.made,
        symptom=spot_at(empty[0].site),
        step=empty[-1].step,
        op="clip_grad_norm_",
        phase="backward",
        severity=Severity.WARNING,
        confidence=Confidence.PROVEN,
        verdict="nothing is clipped: the parameters are in an exhausted iterator",
        what=f"{len(empty)} calls received no parameter at all",
        why="An iterator yields its elements once. This one was consumed before"
        + (
            " the clip."
            if found.lines
            else " the second clip, so only the first one had an effect."
        ),
        fix="Keep the parameters in a list if they are iterated more than once, or call "
        "parameters() each time.",
        chain=found.consumed_hop,
        patch=found.patch,
    )


def _of_gradients(audit: Audit) -> Finding | None:
    """Report `clip_grad_norm_([p.grad for p in parameters], 1.0)`: gradients have no `.grad`."""
    clips = [each for each in audit.loop.of(Kind.CLIP) if each.detail.get("are_gradients")]
    if len(clips) < ENOUGH or clips[-1].site is None:
        return None
    return silent_finding(
        audit,
        "optimizer/ineffective-clip",
        spot=spot_at(clips[-1].site),
        step=clips[0].step,
        op="clip_grad_norm_",
        phase="backward",
        severity=Severity.WARNING,
        confidence=Confidence.PROVEN,
        verdict="nothing is clipped: the clip receives gradients instead of parameters",
        what=f"in {len(clips)} calls no tensor had a .grad",
        why="clip_grad_norm_ scales the .grad of each tensor that it receives. Gradients have no "
        ".grad, so they are skipped.",
        fix="Pass the parameters: clip_grad_norm_(model.parameters(), limit).",
        patch=_of_weights(clips[-1].site),
    )


def _of_weights(clip: Site) -> str | None:
    """`[p.grad for p in parameters if ...]` becomes `[p for p in parameters if ...]`."""
    node, scope = clip.node(), function_node(clip)
    given: ast.expr | None = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if isinstance(given, ast.Name) and scope is not None:
        known = find_definition(given.id, scope, node)
        given = known.value if known is not None else None
    match given:
        case (
            ast.ListComp(elt=ast.Attribute(value=ast.Name() as weight, attr="grad") as element)
            | ast.GeneratorExp(
                elt=ast.Attribute(value=ast.Name() as weight, attr="grad") as element
            )
        ):
            return diff_of(replace_node(clip.filename, element, weight.id))
    return None


def _used_itself(clips: list[Event], empty: Event, made: Spot) -> bool:
    """Whether the same line has clipped before, with an iterator created outside of any loop."""
    node = made.node()
    is_made_once = node is not None and enclosing(node, ast.For, ast.While) is None
    return is_made_once and any(each.site == empty.site and each.written for each in clips)
