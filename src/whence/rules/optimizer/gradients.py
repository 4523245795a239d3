"""What the loop does with gradients between backward and step."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind, OptimizerEntry
from whence.rules.optimizer.edits import moved_behind, stepped_after
from whence.rules.optimizer.rates import spot_of_formula
from whence.rules.optimizer.tails import tail_dropped
from whence.rules.optimizer.unreached import step_not_reached
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import spot_at, tell_silent
from whence.source.blocks import dotted
from whence.source.edits import Edit, diff_of
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.statements import move_after, move_before
from whence.source.uncalled import UNMADE, called, uncalled_beside

ENOUGH = 3


@audit_rule("optimizer/discarded-gradient", Rank.CAUSE)
def discarded_gradient(audit: Audit) -> Finding | None:
    """Gradients are cleared before a step used them.

    What happened
        backward computed gradients, and zero_grad cleared them before the optimizer's step: the step found nothing, or only what
        the last backward gave. Or what is left over of an epoch, with too few batches for another step, is cleared before the next.
    Why it matters
        The work of these backward passes is lost; where it is all of them, nothing is learnt.
    How it is detected
        The order of backward, zero_grad and step over several steps: gradients of the same backward are cleared unread again
        and again, with the weights unchanged in between.
    How to fix it
        zero_grad before backward, or after step; with accumulation, once for each step.
    When it stays silent
        Gradients that another loss left behind (a GAN's), a bad step that is skipped now and then, two backward passes with
        a change of the weights between them (SAM).
    Cost
        One entry a call in the first 200 steps.
    """
    for entry in audit.built:
        story = audit.loop.story_of(entry)
        first = next((each for each in story if each.kind in (Kind.STEP, Kind.BACKWARD)), None)
        if first is not None and first.kind is Kind.STEP:
            # The step comes before backward: clearing is in its place, and the step is not.
            continue
        if (found := tail_dropped(audit, entry)) is not None:
            return found
        lost = _lost(story)
        steps = sum(each.kind is Kind.STEP for each in story)
        if steps < ENOUGH and not audit.final:
            continue
        by_line: dict[Site, list[tuple[Event, Event]]] = {}
        for backward, clear in lost:
            if backward.site is not None and clear.site is not None:
                by_line.setdefault(clear.site, []).append((backward, clear))
        for site, pairs in by_line.items():
            empty = sum(each.kind is Kind.STEP and not each.written for each in story)
            nothing = empty >= ENOUGH and empty >= 0.9 * steps
            # Each time anew: a program may leave out its first updates, and make all others.
            often = len(pairs) >= max(ENOUGH, steps) and _turns(story, pairs) >= min(steps, ENOUGH)
            stands_still = nothing and audit.final and not _any_changed(audit, entry)
            if (
                not (nothing or often)
                or len(pairs) < ENOUGH
                or (_is_read(audit, entry, pairs) and not stands_still)
            ):
                continue
            backward, clear = pairs[-1]
            meant = _meant(story, backward)
            return tell_silent(
                audit,
                "optimizer/discarded-gradient",
                spot=Spot.of_site(site),
                symptom=spot_at((meant or backward).site),
                step=clear.step,
                op="zero_grad",
                phase="backward",
                verdict="zero_grad clears the gradients before the step: "
                + ("no update is made" if nothing else "all but the last are lost"),
                what=f"{len(pairs)} backward passes were cleared before a step used them, in {steps} steps",
                why="Between backward and step nothing may clear gradients; here zero_grad comes after backward."
                if nothing and meant is None
                else "Another backward comes between the loss's and the step, and zero_grad after it clears what both of them gave."
                if nothing
                else "Gradients are to be added up over several backward passes, and zero_grad clears them before each one.",
                fix="Call zero_grad before backward (or right after step)."
                if nothing and meant is None
                else "Ask torch.autograd.grad for gradients that are only looked at: it leaves .grad alone; then nothing need be cleared here."
                if nothing
                else "Call zero_grad once for each step: after the step, not before each backward.",
                patch=None
                if meant is not None
                else _moved(site, backward.site, move_before)
                if nothing
                else _moved(
                    site,
                    next(each.site for each in reversed(story) if each.kind is Kind.STEP),
                    move_after,
                ),
                chain=(Spot.of_site(backward.site).hop("another backward, that is cleared here"),)
                if meant is not None and backward.site is not None
                else (),
            )
    return None


def _turns(story: Sequence[Event], pairs: Sequence[tuple[Event, Event]]) -> int:
    """Before how many of the steps gradients were lost."""
    steps = [number for number, each in enumerate(story) if each.kind is Kind.STEP]
    places = [story.index(clear) for _, clear in pairs]
    return len({sum(step < place for step in steps) for place in places})


def _moved(
    clear: Site,
    other: Site | None,
    move: Callable[[str, ast.stmt, ast.stmt], tuple[Edit | None, ...]],
) -> str | None:
    """The clearing put elsewhere: before backward, or behind the step. Both stand in one function, or are called on the same name."""
    one, place = clear.statement(), other.statement() if other is not None else None
    if (
        other is None
        or other.filename != clear.filename
        or not isinstance(one, ast.Expr)
        or place is None
    ):
        return None
    if other.f_code is not clear.f_code and (_owner(one) is None or _owner(one) != _owner(place)):
        return None
    return diff_of(*move(clear.filename, one, place))


def _owner(statement: ast.stmt) -> str | None:
    """`self.opt` of `self.opt.step()`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            return dotted(owner)
    return None


def _lost(story: Sequence[Event]) -> list[tuple[Event, Event]]:
    """Backward passes whose gradients were cleared before a step, each with what cleared them."""
    found = []
    read_sites = {
        one.site
        for one, other in pairwise(story)
        if one.kind is Kind.BACKWARD and other.kind is not Kind.CLEAR
    }
    for one, other in pairwise([each for each in story if each.kind is not Kind.CLIP]):
        if (
            one.kind is Kind.BACKWARD
            and other.kind is Kind.CLEAR
            and one.detail.get("versions") == other.detail.get("versions")
        ):
            found.append((one, other))
    empty = any(each.kind is Kind.STEP and not each.written for each in story)
    return [each for each in found if each[0].site in read_sites or empty]


def _meant(story: Sequence[Event], backward: Event) -> Event | None:
    """A backward of another line just before one that is cleared: its gradients were for the step, and are lost with the other's."""
    before = story[story.index(backward) - 1]
    is_other = (
        before.kind is Kind.BACKWARD and before.site != backward.site and backward is not story[0]
    )
    return before if is_other else None


def _is_read(audit: Audit, entry: OptimizerEntry, pairs: list[tuple[Event, Event]]) -> bool:
    """Whether the program looked at the gradients of an optimizer's weights before they were cleared: those of an input are others."""
    clears = {each.site for each in audit.loop.of(Kind.CLEAR, Kind.CLIP, Kind.STEP, Kind.UNSCALE)}
    first = min(pair[0].step for pair in pairs)
    return any(
        call.name == "grad.__get__"
        and call.site not in clears
        and call.step >= first
        and call.phase == "program"
        and any(
            value.tensor is None or id(value.tensor) in entry.weights for value in call.operands
        )
        for call in audit.tape.calls
    )


@audit_rule("optimizer/no-update", Rank.CAUSE)
def no_update(audit: Audit) -> Finding | None:
    """The loop runs and no parameter changes.

    What happened
        backward is never called. Or gradients are computed again and again, and no step uses them: step is never called, or stands behind a condition that never
        holds, is called when there are no gradients, or the learning rate is zero. Or the program changes the weights by itself, beside an optimizer that it clears or schedules.
    Why it matters
        Nothing is learnt; or it is learnt without the momentum, the decay and the schedule that were asked for.
    How it is detected
        Backward passes that give the optimizer's weights gradients, and weights that are bit for bit what they were; or an optimizer
        that is never stepped, and weights that are not.
    How to fix it
        The missing call in its place.
    When it stays silent
        Programs without an optimizer, weights that the program changes by itself where nothing is lost by that, rates that are zero
        only in a warm-up.
    Cost
        A comparison of a few hundred elements of each weight at the end.
    """
    if {
        "optimizer/discarded-gradient",
        "gradient/fake-leaf",
        "gradient/detached",
    } & audit.told or not audit.final:
        return None
    for entry in audit.built:
        story = audit.loop.story_of(entry)
        backwards = [each for each in story if each.kind is Kind.BACKWARD]
        if entry.evaluates or (
            entry.steps == 0 and any(each.kind is Kind.UNSCALE for each in story)
        ):
            # It steps by a closure; or a GradScaler asked for a step and left it out.
            continue
        if entry.steps == 0 and len(backwards) >= 2 * ENOUGH:
            others = [each for each in audit.built if each.steps]
            if any(each.weights & entry.weights for each in others) or backwards[-1].site is None:
                continue
            if _any_changed(audit, entry):
                found = _passed_over(audit, entry, backwards[-1].site)
                if found is not None:
                    return found
                continue
            unmade = uncalled_beside(backwards[-1].site, "step")
            unreached = (
                step_not_reached(audit, entry, backwards[-1].site, passes=len(backwards))
                if unmade is None
                else None
            )
            return unreached or tell_silent(
                audit,
                "optimizer/no-update",
                spot=unmade or Spot.of_site(backwards[-1].site),
                symptom=spot_at(entry.stack[0] if entry.stack else None),
                step=audit.step,
                op="backward",
                phase="optimizer",
                verdict=f"{entry.kind}.step is never called: no weight changes",
                what=f"{len(backwards)} backward passes, no step of this optimizer",
                why="backward only computes gradients; the weights change when the optimizer's step uses them."
                + (UNMADE if unmade is not None else ""),
                fix="Call step on the optimizer after backward.",
                patch=called(unmade) or stepped_after(audit, entry, backwards[-1].site)
                if len({each.site for each in backwards}) == 1
                else None,
            )
        if entry.steps >= 2 * ENOUGH and entry.rates and entry.rates[1] == 0.0 and entry.stack:
            return _tell_no_rate(audit, entry)
        steps = [each for each in story if each.kind is Kind.STEP]
        idle = len(steps) >= 2 * ENOUGH and not any(each.written for each in steps)
        if idle and entry.stack and hasattr(torch.optim, entry.kind) and not _any_backward(audit):
            return _tell_no_backward(audit, steps)
        if (
            len(steps) >= 2 * ENOUGH
            and backwards
            and all(not each.written for each in steps)
            and not _any_changed(audit, entry)
        ):
            return tell_silent(
                audit,
                "optimizer/no-update",
                spot=spot_at(steps[-1].site),
                symptom=spot_at(backwards[-1].site),
                step=audit.step,
                op="step",
                phase="optimizer",
                verdict="step is called when there are no gradients: no weight changes",
                what=f"{len(steps)} steps, each without a gradient",
                why="Gradients are there between backward and zero_grad; this step comes at another time.",
                fix="Call step after backward and before zero_grad.",
                patch=moved_behind(steps[-1].site, backwards[-1].site),
            )
    return None


def _any_backward(audit: Audit) -> bool:
    """Or gradients that were asked for."""
    return next(audit.loop.of(Kind.BACKWARD), None) is not None or bool(audit.losses)


def _tell_no_backward(audit: Audit, steps: list[Event]) -> Finding | None:
    unmade = uncalled_beside(steps[-1].site, "backward")
    return tell_silent(
        audit,
        "optimizer/no-update",
        spot=unmade or spot_at(steps[-1].site),
        symptom=spot_at(steps[-1].site),
        step=audit.step,
        op="step",
        phase="optimizer",
        verdict="backward is never called: no weight has a gradient, and none changes",
        what=f"{len(steps)} steps, each without a gradient",
        why=f"A step changes the weights that have a gradient, and passes over all others.{UNMADE if unmade is not None else ''}",
        fix="Call backward on the loss before the step.",
        patch=called(unmade),
    )


def _passed_over(audit: Audit, entry: OptimizerEntry, backward: Site) -> Finding | None:
    """The program changes the weights by itself, and has an optimizer for them that it clears or schedules: what that was given is lost."""
    plan = audit.schedules.of(entry.ref)
    is_scheduled = plan is not None and plan.steps > 0
    is_cleared = any(
        each.written == entry.weights and issubclass(each.detail["by"], torch.optim.Optimizer)
        for each in audit.loop.of(Kind.CLEAR)
    )
    lost = [*entry.settings, *([plan.kind] if plan is not None and is_scheduled else [])]
    if not lost or not (is_cleared or is_scheduled) or not entry.stack:
        return None
    return tell_silent(
        audit,
        "optimizer/no-update",
        spot=spot_at(entry.stack[0]),
        symptom=spot_at(backward),
        step=audit.step,
        op=entry.kind,
        phase="optimizer",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"{entry.kind}.step is never called: other code changes the weights, and {', '.join(lost)} {'has' if len(lost) == 1 else 'have'} no effect",
        what="the gradients of this are used, and not by the optimizer",
        why="What an optimizer was given, and the rate that a scheduler sets, take part in an update only in its own step.",
        fix="Call the optimizer's step where the weights are changed by hand, and take that away; or take away the optimizer.",
    )


def _tell_no_rate(audit: Audit, entry: OptimizerEntry) -> Finding | None:
    plan = audit.schedules.of(entry.ref)
    steered = plan is not None and plan.highest == 0.0 and bool(plan.built)
    built = spot_at(plan.built[0] if plan is not None and steered else entry.stack[0])
    formula = (
        spot_of_formula(plan.formula)
        if plan is not None and plan.formula is not None and steered
        else None
    )
    return tell_silent(
        audit,
        "optimizer/no-update",
        spot=formula or built,
        symptom=built,
        step=audit.step,
        op=plan.kind if plan is not None and steered else entry.kind,
        phase="optimizer",
        verdict=f"the learning rate is 0 in all {entry.steps} steps: no weight changes",
        what=f"{plan.kind} sets it to 0 in every step"
        if plan is not None and steered
        else "every update is zero",
        why="The update is the learning rate times a direction."
        + (
            " What this gives is multiplied with the rate of the optimizer."
            if formula is not None
            else ""
        ),
        fix=f"Let it come to more than zero within the {entry.steps} steps of the run."
        + _floored(formula)
        if steered
        else "Give the optimizer a learning rate above zero; look at the scheduler, if there is one.",
    )


def _floored(formula: Spot | None) -> str:
    node = formula.node() if formula is not None else None
    floors = node is not None and any(isinstance(each, ast.FloorDiv) for each in ast.walk(node))
    return (
        " // gives whole numbers, 0 for every share below one: / gives the share." if floors else ""
    )


def _any_changed(audit: Audit, entry: OptimizerEntry) -> bool:
    return any(
        each.has_changed()
        for each in audit.weights.entries()
        if each.weight is not None and id(each.weight) in entry.weights
    )
