"""What the training loop does with gradients between backward and step."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind, OptimizerEntry
from whence.rules.optimizer.edits import moved_after, stepped_after
from whence.rules.optimizer.rates import spot_of_formula
from whence.rules.optimizer.tails import tail_dropped
from whence.rules.optimizer.unreached import step_not_reached
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding, spot_at
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
        backward computed gradients, and zero_grad cleared them before the optimizer's step: the
        step found none, or only those of the last backward. Or an incomplete accumulation window at
        the end of an epoch is cleared before the next epoch.
    Why it matters
        The work of these backward passes is lost; if all of them are affected, nothing is learned.
    How it is detected
        The order of backward, zero_grad and step over several steps: gradients of the same backward
        are repeatedly cleared unread, with the weights unchanged in between.
    How to fix it
        Call zero_grad before backward, or after step; with accumulation, once per step.
    When it stays silent
        For gradients that another loss left behind (a GAN), an occasional skipped step, and two
        backward passes with a change of the weights in between (SAM).
    Cost
        One entry per call in the first 200 steps.
    """
    for entry in audit.built:
        story = audit.loop.story_of(entry)
        first = next((each for each in story if each.kind in (Kind.STEP, Kind.BACKWARD)), None)
        if first is not None and first.kind is Kind.STEP:
            # The step comes before backward: then the step is misplaced, not the clearing.
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
            # It must happen in several steps: a program may skip its first updates only.
            often = len(pairs) >= max(ENOUGH, steps) and _affected(story, pairs) >= min(
                steps, ENOUGH
            )
            stands_still = nothing and audit.final and not _any_changed(audit, entry)
            if (
                not (nothing or often)
                or len(pairs) < ENOUGH
                or (_is_read(audit, entry, pairs) and not stands_still)
            ):
                continue
            backward, clear = pairs[-1]
            meant = _meant(story, backward)
            return silent_finding(
                audit,
                "optimizer/discarded-gradient",
                spot=Spot.of_site(site),
                symptom=spot_at((meant or backward).site),
                step=clear.step,
                op="zero_grad",
                phase="backward",
                verdict="zero_grad clears the gradients before the step: "
                + ("no weight is updated" if nothing else "all but the last gradients are lost"),
                what=f"{len(pairs)} backward passes were cleared before a step used them, in "
                f"{steps} steps",
                why="zero_grad is called between backward and step, so the step finds no gradients."
                if nothing and meant is None
                else "A second backward runs between the loss's backward and the step. The "
                "zero_grad after it clears the gradients of both."
                if nothing
                else "Gradients should accumulate over several backward passes, but zero_grad "
                "clears them before each one.",
                fix="Call zero_grad before backward (or right after step)."
                if nothing and meant is None
                else "Use torch.autograd.grad for gradients that are only inspected: it does not "
                "change .grad, so nothing needs to be cleared here."
                if nothing
                else "Call zero_grad once per step: after the step, not before each backward.",
                patch=None
                if meant is not None
                else _moved(site, backward.site, move_before)
                if nothing
                else _moved(
                    site,
                    next(each.site for each in reversed(story) if each.kind is Kind.STEP),
                    move_after,
                ),
                chain=(Spot.of_site(backward.site).hop("the second backward, cleared here"),)
                if meant is not None and backward.site is not None
                else (),
            )
    return None


def _affected(story: Sequence[Event], pairs: Sequence[tuple[Event, Event]]) -> int:
    """The number of steps before which gradients were lost."""
    steps = [number for number, each in enumerate(story) if each.kind is Kind.STEP]
    places = [story.index(clear) for _, clear in pairs]
    return len({sum(step < place for step in steps) for place in places})


def _moved(
    clear: Site,
    other: Site | None,
    move: Callable[[str, ast.stmt, ast.stmt], tuple[Edit | None, ...]],
) -> str | None:
    """Move the clearing before backward or after the step, if the names are the same there."""
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
    """Backward passes whose gradients were cleared before a step, with the clearing."""
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
    """A backward of another line just before one that is cleared: its gradients are lost too."""
    before = story[story.index(backward) - 1]
    is_other = (
        before.kind is Kind.BACKWARD and before.site != backward.site and backward is not story[0]
    )
    return before if is_other else None


def _is_read(audit: Audit, entry: OptimizerEntry, pairs: list[tuple[Event, Event]]) -> bool:
    """Whether the program read the gradients of an optimizer's weights before clearing them."""
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
        backward is never called. Or gradients are computed repeatedly and no step uses them: step
        is never called, is behind a condition that never holds, is called when there are no
        gradients, or the learning rate is zero. Or the program changes the weights itself, next to
        an optimizer that it clears or schedules.
    Why it matters
        Nothing is learned; or it is learned without the configured momentum, weight decay and
        schedule.
    How it is detected
        Backward passes give the optimizer's weights gradients, and the weights are bit for bit
        unchanged; or an optimizer is never stepped, and its weights change.
    How to fix it
        Add the missing call.
    When it stays silent
        For programs without an optimizer, weights that the program changes itself without losing
        anything, and learning rates that are zero only during warm-up.
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
            # It steps with a closure, or a GradScaler skipped the step.
            continue
        if entry.steps == 0 and len(backwards) >= 2 * ENOUGH:
            others = [each for each in audit.built if each.steps]
            if any(each.weights & entry.weights for each in others) or backwards[-1].site is None:
                continue
            if _any_changed(audit, entry):
                found = _bypassed(audit, entry, backwards[-1].site)
                if found is not None:
                    return found
                continue
            unmade = uncalled_beside(backwards[-1].site, "step")
            unreached = (
                step_not_reached(audit, entry, backwards[-1].site, passes=len(backwards))
                if unmade is None
                else None
            )
            return unreached or silent_finding(
                audit,
                "optimizer/no-update",
                spot=unmade or Spot.of_site(backwards[-1].site),
                symptom=spot_at(entry.stack[0] if entry.stack else None),
                step=audit.step,
                op="backward",
                phase="optimizer",
                verdict=f"{entry.kind}.step is never called: no weight changes",
                what=f"{len(backwards)} backward passes, no step of this optimizer",
                why="backward only computes gradients. The weights change when the optimizer's "
                "step uses them." + (UNMADE if unmade is not None else ""),
                fix="Call step() on the optimizer after backward.",
                patch=called(unmade) or stepped_after(audit, entry, backwards[-1].site)
                if len({each.site for each in backwards}) == 1
                else None,
            )
        if entry.steps >= 2 * ENOUGH and entry.rates and entry.rates[1] == 0.0 and entry.stack:
            return _report_no_rate(audit, entry)
        steps = [each for each in story if each.kind is Kind.STEP]
        idle = len(steps) >= 2 * ENOUGH and not any(each.written for each in steps)
        if idle and entry.stack and hasattr(torch.optim, entry.kind) and not _any_backward(audit):
            return _report_no_backward(audit, steps)
        if (
            len(steps) >= 2 * ENOUGH
            and backwards
            and all(not each.written for each in steps)
            and not _any_changed(audit, entry)
        ):
            return silent_finding(
                audit,
                "optimizer/no-update",
                spot=spot_at(steps[-1].site),
                symptom=spot_at(backwards[-1].site),
                step=audit.step,
                op="step",
                phase="optimizer",
                verdict="step is called when there are no gradients: no weight changes",
                what=f"{len(steps)} steps, each without a gradient",
                why="Gradients exist between backward and zero_grad. This step is called at "
                "another time.",
                fix="Call step after backward and before zero_grad.",
                patch=moved_after(steps[-1].site, backwards[-1].site),
            )
    return None


def _any_backward(audit: Audit) -> bool:
    """Whether backward ran, or gradients were computed otherwise."""
    return next(audit.loop.of(Kind.BACKWARD), None) is not None or bool(audit.losses)


def _report_no_backward(audit: Audit, steps: list[Event]) -> Finding | None:
    unmade = uncalled_beside(steps[-1].site, "backward")
    return silent_finding(
        audit,
        "optimizer/no-update",
        spot=unmade or spot_at(steps[-1].site),
        symptom=spot_at(steps[-1].site),
        step=audit.step,
        op="step",
        phase="optimizer",
        verdict="backward is never called: no weight has a gradient, so none changes",
        what=f"{len(steps)} steps, each without a gradient",
        why="A step changes the weights that have a gradient and skips all "
        f"others.{UNMADE if unmade is not None else ''}",
        fix="Call backward on the loss before the step.",
        patch=called(unmade),
    )


def _bypassed(audit: Audit, entry: OptimizerEntry, backward: Site) -> Finding | None:
    """Report a manual update next to an optimizer whose settings or scheduler are then unused."""
    plan = audit.schedules.of(entry.ref)
    is_scheduled = plan is not None and plan.steps > 0
    is_cleared = any(
        each.written == entry.weights and issubclass(each.detail["by"], torch.optim.Optimizer)
        for each in audit.loop.of(Kind.CLEAR)
    )
    lost = [*entry.settings, *([plan.kind] if plan is not None and is_scheduled else [])]
    if not lost or not (is_cleared or is_scheduled) or not entry.stack:
        return None
    return silent_finding(
        audit,
        "optimizer/no-update",
        spot=spot_at(entry.stack[0]),
        symptom=spot_at(backward),
        step=audit.step,
        op=entry.kind,
        phase="optimizer",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"{entry.kind}.step is never called: other code updates the weights, so "
        f"{', '.join(lost)} {'has' if len(lost) == 1 else 'have'} no effect",
        what="the gradients are used, but not by the optimizer",
        why="The optimizer's settings, and the learning rate that a scheduler sets, only affect "
        "updates made by the optimizer's step.",
        fix="Call the optimizer's step instead of changing the weights manually; or remove the "
        "optimizer.",
    )


def _report_no_rate(audit: Audit, entry: OptimizerEntry) -> Finding | None:
    plan = audit.schedules.of(entry.ref)
    steered = plan is not None and plan.highest == 0.0 and bool(plan.built)
    built = spot_at(plan.built[0] if plan is not None and steered else entry.stack[0])
    formula = (
        spot_of_formula(plan.formula)
        if plan is not None and plan.formula is not None and steered
        else None
    )
    return silent_finding(
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
            " The result of this formula is multiplied with the optimizer's learning rate."
            if formula is not None
            else ""
        ),
        fix=f"Make the schedule rise above zero within the {entry.steps} steps of the run."
        + _floored(formula)
        if steered
        else "Set a learning rate above zero; check the scheduler, if there is one.",
    )


def _floored(formula: Spot | None) -> str:
    node = formula.node() if formula is not None else None
    floors = node is not None and any(isinstance(each, ast.FloorDiv) for each in ast.walk(node))
    return (
        " Use / instead of //, which rounds every fraction below one down to 0." if floors else ""
    )


def _any_changed(audit: Audit, entry: OptimizerEntry) -> bool:
    return any(
        each.has_changed()
        for each in audit.weights.entries()
        if each.weight is not None and id(each.weight) in entry.weights
    )
