"""What the loop does with gradients between backward and step."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import pairwise

from torch.optim import Optimizer

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.ledgers.facts import all_weights_of
from whence.ledgers.loop import Event, Kind, OptimizerEntry
from whence.ledgers.study import Study
from whence.rules.rule import Rank, audit_rule, study_rule
from whence.rules.telling import spot_at, tell_silent
from whence.source.edits import diff_of, insert_before
from whence.source.sites import Site, variables
from whence.source.spots import Spot
from whence.tape.replay import plan_for, replay

ENOUGH = 3


@study_rule("optimizer/missing-zero-grad", Rank.CAUSE)
def missing_zero_grad(study: Study) -> Finding | None:
    """Gradients of earlier steps are added to this one.

    What happened
        backward adds to .grad. After the optimizer had used the gradients they were not cleared, so that each step uses the sum
        of all gradients since.
    Why it matters
        The update follows old gradients more than new ones: training is unstable or diverges, or seems to have a far
        higher learning rate.
    How it is detected
        When backward begins again after a step, the gradients that the step has used are still there, and the step run again
        from cleared ones gives others.
    How to fix it
        optimizer.zero_grad() before backward, in each step.
    When it stays silent
        Accumulation over several backwards before one step, clearing by any means (zero_grad of the optimizer or the model,
        grad = None, grad.zero_()), closures.
    Cost
        A replay in the first steps, and only if the same gradient tensors are used again.
    """
    optimizer = study.optimizer
    story = [each for each in study.loop.story_of(study.entry) if each.kind in (Kind.STEP, Kind.CLEAR, Kind.BACKWARD)]
    steps = [number for number, each in enumerate(story) if each.kind is Kind.STEP]
    if len(steps) < 2:
        return None
    between = story[steps[-2] + 1 : steps[-1]]
    if any(each.kind is Kind.CLEAR for each in between) or not any(each.kind is Kind.BACKWARD for each in between):
        return None
    backwards = [each for each in between if each.kind is Kind.BACKWARD]
    backward = backwards[-1]
    if not study.entry.weights & backwards[0].detail["kept"]:
        return None
    share = _carried(study, optimizer)
    if share is None or backward.site is None:
        return None
    spot = Spot.of_site(backward.site)
    return tell_silent(
        study,
        "optimizer/missing-zero-grad",
        spot=spot,
        symptom=spot_at(study.stack[0] if study.stack else None),
        step=study.step,
        op="backward",
        phase="backward",
        verdict="gradients are not cleared between steps: each update uses the sum of all gradients so far",
        what=f"what is left of earlier steps is {share:.2g} times this step's own gradient",
        why="backward adds to .grad, and nothing cleared it after the last update.",
        fix="Call optimizer.zero_grad() before backward, in every step."
        if study.entry.stack
        else "Clear the gradients before backward, in every step: the model's zero_grad(), or grad = None for each weight.",
        patch=_inserted(backward.site, _clearing(study, story[steps[-1]], backward.site)),
        replay="bit-identical",
        counterfactual="with the gradients cleared, the same step gives other gradients",
    )


def _carried(study: Study, optimizer: Optimizer) -> float | None:
    """What earlier steps have left, as a multiple of the gradients of the pass alone; None if there is nothing."""
    if study.plan is None:
        return None
    values = [each.value for each in study.losses]
    try:
        run = replay(plan_for(list(study.calls), study.now, study.tape, values, backward=True))
    except Exception:
        return None
    fresh = {
        id(value.tensor): tensor.grad
        for value, tensor in run.leaves.items()
        if value.tensor is not None and tensor.grad is not None
    }
    there, alone = 0.0, 0.0
    for group in optimizer.param_groups:
        for weight in group["params"]:
            own = fresh.get(id(weight))
            if own is None or weight.grad is None or own.shape != weight.grad.shape or weight.grad.is_sparse:
                continue
            there += float((weight.grad - own).double().pow(2).sum())
            alone += float(own.double().pow(2).sum())
    if alone == 0.0 or there <= 1e-6 * alone:
        return None
    return float((there / alone) ** 0.5)


def _clearing(study: Study, step: Event, backward: Site) -> list[str]:
    """Lines that clear the gradients, in the words of the program; none if there are no words for it."""
    frame = next((each for each in study.frames if each.f_code is backward.f_code), None)
    if frame is None:
        return []
    if not study.entry.stack:
        held = {id(each): name for name, each in variables(frame).items()}
        names = [held.get(id(each)) for each in all_weights_of(study.optimizer)]
        if all(names):
            return [f"for weight in [{', '.join(map(str, names))}]:", "    weight.grad = None"]
    node = step.site.node() if step.site is not None and step.site.f_code is backward.f_code else None
    if not isinstance(node, ast.Call):
        return []
    # An optimizer's step, or a model's call.
    owner = ast.unparse(node.func.value if study.entry.stack and isinstance(node.func, ast.Attribute) else node.func)
    return [f"{owner}.zero_grad()"] if owner.isidentifier() or study.entry.stack else []


def _inserted(backward: Site, lines: list[str]) -> str | None:
    """Lines in front of backward."""
    statement = backward.statement()
    if not isinstance(statement, ast.Expr) or not lines:
        return None
    indent = " " * statement.col_offset
    return diff_of(insert_before(backward.filename, statement, "".join(f"{each}\n{indent}" for each in lines)))


@audit_rule("optimizer/discarded-gradient", Rank.CAUSE)
def discarded_gradient(audit: Audit) -> Finding | None:
    """Gradients are cleared before a step used them.

    What happened
        backward computed gradients, and zero_grad cleared them before the optimizer's step: the step found nothing, or only what
        the last backward gave.
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
            often = len(pairs) >= max(ENOUGH, steps)
            if not (nothing or often) or len(pairs) < ENOUGH or _is_read(audit, pairs):
                continue
            backward, clear = pairs[-1]
            return tell_silent(
                audit,
                "optimizer/discarded-gradient",
                spot=Spot.of_site(site),
                symptom=spot_at(backward.site),
                step=clear.step,
                op="zero_grad",
                phase="backward",
                verdict="zero_grad clears the gradients before the step: "
                + ("no update is made" if nothing else "all but the last are lost"),
                what=f"{len(pairs)} backward passes were cleared unread in {steps} steps",
                why="Between backward and step nothing may clear gradients; here zero_grad comes after backward."
                if nothing
                else "Gradients are to be added up over several backward passes, and zero_grad clears them before each one.",
                fix="Call zero_grad before backward (or right after step)."
                if nothing
                else "Call zero_grad once for each step: after the step, not before each backward.",
            )
    return None


def _lost(story: Sequence[Event]) -> list[tuple[Event, Event]]:
    """Backward passes whose gradients were cleared before a step, each with what cleared them."""
    found = []
    read_sites = {
        one.site for one, other in pairwise(story) if one.kind is Kind.BACKWARD and other.kind is not Kind.CLEAR
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


def _is_read(audit: Audit, pairs: list[tuple[Event, Event]]) -> bool:
    """Whether the program looked at the gradients before they were cleared."""
    clears = {each.site for each in audit.loop.of(Kind.CLEAR, Kind.CLIP, Kind.STEP, Kind.UNSCALE)}
    first = min(pair[0].step for pair in pairs)
    return any(
        call.name == "grad.__get__" and call.site not in clears and call.step >= first and call.phase == "program"
        for call in audit.tape.calls
    )


@audit_rule("optimizer/no-update", Rank.CAUSE)
def no_update(audit: Audit) -> Finding | None:
    """The loop runs and no parameter changes.

    What happened
        Gradients are computed again and again, and no step uses them: step is never called, is called when there are no gradients,
        or the learning rate is zero.
    Why it matters
        Nothing is learnt.
    How it is detected
        Backward passes that give the optimizer's weights gradients, and weights that are bit for bit what they were.
    How to fix it
        The missing call in its place.
    When it stays silent
        Programs without an optimizer, weights that the program changes by itself, rates that are zero only in a warm-up.
    Cost
        A comparison of a few hundred elements of each weight at the end.
    """
    if {"optimizer/discarded-gradient", "gradient/fake-leaf", "gradient/detached"} & audit.told or not audit.final:
        return None
    for entry in audit.built:
        story = audit.loop.story_of(entry)
        backwards = [each for each in story if each.kind is Kind.BACKWARD]
        if entry.evaluates or (entry.steps == 0 and any(each.kind is Kind.UNSCALE for each in story)):
            # It steps by a closure; or a GradScaler asked for a step and left it out.
            continue
        if entry.steps == 0 and len(backwards) >= 2 * ENOUGH and not _any_changed(audit, entry):
            others = [each for each in audit.built if each.steps]
            if any(each.weights & entry.weights for each in others) or backwards[-1].site is None:
                continue
            return tell_silent(
                audit,
                "optimizer/no-update",
                spot=Spot.of_site(backwards[-1].site),
                symptom=spot_at(entry.stack[0] if entry.stack else None),
                step=audit.step,
                op="backward",
                phase="optimizer",
                verdict=f"{entry.kind}.step is never called: no weight changes",
                what=f"{len(backwards)} backward passes, no step of this optimizer",
                why="backward only computes gradients; the weights change when the optimizer's step uses them.",
                fix="Call step on the optimizer after backward.",
            )
        if entry.steps >= 2 * ENOUGH and entry.rates and entry.rates[1] == 0.0 and entry.stack:
            return tell_silent(
                audit,
                "optimizer/no-update",
                spot=Spot.of_site(entry.stack[0]),
                step=audit.step,
                op=entry.kind,
                phase="optimizer",
                verdict=f"the learning rate is 0 in all {entry.steps} steps: no weight changes",
                what="every update is zero",
                why="The update is the learning rate times a direction.",
                fix="Give the optimizer a learning rate above zero; look at the scheduler, if there is one.",
            )
        steps = [each for each in story if each.kind is Kind.STEP]
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
            )
    return None


def _any_changed(audit: Audit, entry: OptimizerEntry) -> bool:
    return any(
        each.has_changed()
        for each in audit.weights.entries()
        if each.weight is not None and id(each.weight) in entry.weights
    )
