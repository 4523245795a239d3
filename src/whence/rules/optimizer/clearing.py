"""Gradients of earlier steps that were not cleared and are used again."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import pairwise
from types import FrameType

import torch
from torch.optim import Optimizer

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.ledgers.facts import all_weights_of
from whence.ledgers.loop import Event, Kind, OptimizerEntry
from whence.ledgers.study import Study
from whence.rules.rule import Rank, audit_rule, study_rule
from whence.rules.telling import silent_finding, spot_at
from whence.source.edits import diff_of
from whence.source.sites import Site, variables
from whence.source.statements import line_after, line_before
from whence.source.text import enclosing, function_node
from whence.source.uncalled import UNMADE, called, uncalled_beside
from whence.tape.replay import plan_for, replay

ENOUGH = 3


@study_rule("optimizer/missing-zero-grad", Rank.CAUSE)
def missing_zero_grad(study: Study) -> Finding | None:
    """Gradients of earlier steps are added to this one.

    What happened
        backward adds to .grad. The gradients were not cleared after the optimizer had used them, so
        each step uses the sum of all gradients since.
    Why it matters
        The update follows old gradients more than new ones: training is unstable or diverges, or
        behaves as with a far higher learning rate.
    How it is detected
        When backward begins again after a step, the gradients of that step still exist, and
        replaying the step with cleared gradients gives different ones. For a step that is too large
        to replay, this must be so after each update. It is reported at the backward; where the
        program clears other gradients just before it, at the line that does so. In a closure that
        an optimizer calls several times per step, gradients of one call exist at the first backward
        of the next. Where a hook steps inside backward, it is reported at the hook's step.
    How to fix it
        Call optimizer.zero_grad() before backward, in each step.
    When it stays silent
        For accumulation over several backwards before one step, and clearing by any means
        (zero_grad of the optimizer or the model, grad = None, grad.zero_()).
    Cost
        A replay in the first steps, only if the same gradient tensors are used again.
    """
    optimizer = study.optimizer
    story = [
        each
        for each in study.loop.story_of(study.entry)
        if each.kind in (Kind.STEP, Kind.CLEAR, Kind.BACKWARD)
    ]
    steps = [number for number, each in enumerate(story) if each.kind is Kind.STEP]
    if len(steps) < 2:
        return None
    between = story[steps[-2] + 1 : steps[-1]]
    backwards = [each for each in between if each.kind is Kind.BACKWARD]
    cleared = frozenset[int]().union(*(each.written for each in between if each.kind is Kind.CLEAR))
    if not backwards or not (study.entry.weights & backwards[0].detail["kept"]) - cleared:
        return None
    backward = backwards[-1]
    share = _carried(study, optimizer)
    seen = share is None and study.plan is None and _adds_each_time(study, story)
    if (share is None and not seen) or backward.site is None:
        return None
    step = story[steps[-1]]
    if step.detail.get("within") and step.site is not None:
        return _not_cleared_by_hook(study, step.site, backward.site, share)
    partial = _clears_others(study, backwards[0])
    mistaken = _clears_unreached(study, backward) if partial is None else None
    unmade = uncalled_beside(backward.site, "zero_grad") if partial is None else None
    whose = (
        f" of {study.entry.kind}" if len([each for each in study.built if each.steps]) > 1 else ""
    )
    return silent_finding(
        study,
        "optimizer/missing-zero-grad",
        spot=unmade or spot_at(mistaken or (partial or backward).site),
        symptom=spot_at(study.stack[0] if study.stack else None),
        step=study.step,
        op="backward" if partial is None else "zero_grad",
        phase="backward",
        verdict=f"gradients{whose} are not cleared between steps: each update uses the sum of all "
        "gradients so far"
        if partial is None
        else f"only part of the gradients is cleared: {_not_cleared(study, partial)} uses the sum "
        "of all gradients so far",
        what=f"gradients left from earlier steps are {share:.2g} times the size of this step's own"
        if share is not None
        else "each backward adds to gradients that an update has already used",
        why="This line clears gradients of weights that the backward does not reach. The "
        "gradients that it adds to were not cleared."
        if mistaken is not None
        else "backward adds to .grad, and nothing cleared it after the last "
        f"update.{UNMADE if unmade is not None else ''}"
        if partial is None
        else "backward adds to the .grad of all weights in the loss's graph; this line clears "
        "only some of them.",
        fix="Clear all gradients: call zero_grad of every optimizer that steps after this "
        "backward, or of the whole model."
        if partial is not None
        else "Call optimizer.zero_grad() before backward, in every step."
        if study.entry.stack
        else "Clear the gradients before backward, in every step: call the model's zero_grad(), "
        "or set grad = None for each weight.",
        patch=called(unmade)
        or (
            _inserted(backward.site, _clearing(study, step, backward.site))
            if partial is None
            else None
        ),
        replay="bit-identical" if share is not None else None,
        counterfactual="with cleared gradients, the same step gives different gradients"
        if share is not None
        else None,
    )


def _not_cleared_by_hook(
    study: Study, step: Site, backward: Site, share: float | None
) -> Finding | None:
    """Report a hook that steps inside backward: clearing before backward would be too early."""
    match step.statement():
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="step"))) as statement:
            patch = diff_of(
                line_after(step.filename, statement, f"{ast.unparse(owner)}.zero_grad()")
            )
        case _:
            patch = None
    return silent_finding(
        study,
        "optimizer/missing-zero-grad",
        spot=spot_at(step),
        symptom=spot_at(backward),
        step=study.step,
        op="step",
        phase="backward",
        verdict="the hook steps without clearing the gradient: each update uses the sum of all "
        "gradients so far",
        what=f"gradients left from earlier steps are {share:.2g} times the size of this step's own"
        if share is not None
        else "each backward adds to gradients that an update has already used",
        why="backward adds to .grad, and nothing cleared it after the step inside the last "
        "backward.",
        fix="Clear the gradient in the hook, after the step: zero_grad(), or grad = None.",
        patch=patch,
        replay="bit-identical" if share is not None else None,
        counterfactual="with cleared gradients, the same step gives different gradients"
        if share is not None
        else None,
    )


@audit_rule("optimizer/missing-zero-grad", Rank.CAUSE)
def closure_accumulates(audit: Audit) -> Finding | None:
    for entry in audit.built:
        if not entry.evaluates or entry.optimizer is None:
            continue
        added = list(_added_up(audit, entry))
        if len(added) < ENOUGH or added[-1].site is None:
            continue
        backward = added[-1]
        call = audit.loop.last(Kind.EVALUATE, entry.optimizer)
        return silent_finding(
            audit,
            "optimizer/missing-zero-grad",
            spot=spot_at(backward.site),
            symptom=spot_at(call.site) if call is not None else None,
            step=added[0].step,
            op="backward",
            phase="backward",
            verdict=f"the closure does not clear the gradients: {entry.kind} receives the sum of "
            "all evaluations so far",
            what=f"in {len(added)} calls of the closure the gradients of the previous call still "
            "existed",
            why=f"{entry.kind} calls the closure several times per step, and backward adds to "
            ".grad each time.",
            fix="Call optimizer.zero_grad() inside the closure, before backward.",
            patch=_inserted(backward.site, _words(call, backward.site))
            if backward.site and call
            else None,
        )
    return None


def _added_up(audit: Audit, entry: OptimizerEntry) -> Iterator[Event]:
    """The first backward of each closure call that finds gradients left by the previous call.

    Gradients of a backward outside of the closure are accumulated on purpose.
    """
    within = is_first = left = False
    for event in audit.loop.of(Kind.EVALUATE, Kind.EVALUATED, Kind.BACKWARD):
        if event.kind is not Kind.BACKWARD:
            within = is_first = event.kind is Kind.EVALUATE and event.is_about(entry.optimizer)
            continue
        if is_first and left and entry.weights & event.detail["kept"]:
            yield event
        is_first, left = False, within if event.written & entry.weights else left


def _words(call: Event, backward: Site) -> list[str]:
    """The clearing line in the closure's own names, if it is defined where the step is called."""
    node, statement = call.site.node() if call.site is not None else None, backward.statement()
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or statement is None
    ):
        return []
    around, function = enclosing(node, ast.FunctionDef), enclosing(statement, ast.FunctionDef)
    while function is not None and function is not around:
        function = enclosing(function, ast.FunctionDef)
    return [f"{ast.unparse(node.func.value)}.zero_grad()"] if function is around else []


def _adds_each_time(study: Study, story: list[Event]) -> bool:
    """Whether backward has added to nonzero gradients after each of the last updates."""
    steps = [number for number, each in enumerate(story) if each.kind is Kind.STEP][-ENOUGH:]
    if len(steps) < ENOUGH:
        return False
    for before, after in pairwise(steps):
        between = story[before + 1 : after]
        first = next((each for each in between if each.kind is Kind.BACKWARD), None)
        cleared = frozenset[int]().union(
            *(each.written for each in between if each.kind is Kind.CLEAR)
        )
        if first is None or not (study.entry.weights & first.detail["added"]) - cleared:
            return False
    return True


def _clears_others(study: Study, backward: Event) -> Event | None:
    """The event just before a backward that clears gradients, but not this optimizer's.

    In a GAN that clears one network's gradients before its own backward, none are missing there.
    """
    events = list(study.loop.of(Kind.BACKWARD, Kind.STEP, Kind.CLEAR))
    number = events.index(backward)
    earlier = [at for at in range(number) if events[at].kind is Kind.BACKWARD]
    last = events[earlier[-1] + 1 : number] if earlier else []
    stepping = frozenset[int]().union(
        *(each.detail["entry"].weights for each in last if each.kind is Kind.STEP)
    )
    left = study.entry.weights & backward.detail["kept"]
    for event in reversed(last):
        if (
            event.kind is Kind.CLEAR
            and event.written & stepping & backward.written
            and left - event.written
        ):
            return event
    return None


def _clears_unreached(study: Study, backward: Event) -> Site | None:
    """The line before a backward that clears only gradients that the backward does not reach."""
    events = list(study.loop.of(Kind.BACKWARD, Kind.CLEAR))
    for event in reversed(events[: events.index(backward)]):
        if event.kind is Kind.BACKWARD or event.site is None or backward.site is None:
            return None
        here = next(
            (each for each in event.stack if backward.site and each.f_code is backward.site.f_code),
            None,
        )
        if here is not None and event.written and not event.written & backward.written:
            return here
    return None


def _not_cleared(study: Study, clear: Event) -> str:
    return "the rest of the model" if clear.written & study.entry.weights else study.entry.kind


def _carried(study: Study, optimizer: Optimizer) -> float | None:
    """Size of the gradients left by earlier steps, relative to this step's own; None if zero."""
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
            own, used = fresh.get(id(weight)), study.gradient_of(weight)
            if own is None or used is None or (own.shape, own.layout) != (used.shape, used.layout):
                continue
            there += _squared(used - own)
            alone += _squared(own)
    if alone == 0.0 or there <= 1e-6 * alone:
        return None
    return float((there / alone) ** 0.5)


def _squared(gradient: torch.Tensor) -> float:
    """Sparse gradients of an embedding may hold one row several times."""
    numbers = gradient.coalesce().values() if gradient.is_sparse else gradient
    return float(numbers.double().pow(2).sum())


def _clearing(study: Study, step: Event, backward: Site) -> list[str]:
    """Lines that clear the gradients, in the program's own names; empty if there are none."""
    frame = next((each for each in study.frames if each.f_code is backward.f_code), None)
    if frame is None:
        return []
    if not study.entry.stack:
        weights = _in_words(all_weights_of(study.optimizer), frame, backward)
        if weights:
            return [f"for weight in {weights}:", "    weight.grad = None"]
    node = (
        step.site.node() if step.site is not None and step.site.f_code is backward.f_code else None
    )
    if not isinstance(node, ast.Call):
        return []
    # The owner of an optimizer's step, or the called model.
    owner = ast.unparse(
        node.func.value if study.entry.stack and isinstance(node.func, ast.Attribute) else node.func
    )
    loop = enclosing(node, ast.For)
    if isinstance(loop, ast.For) and owner in _names_in(loop.target) and not _is_in(backward, loop):
        # `for optimizer in optimizers: optimizer.step()`: the name is not valid at the backward.
        return []
    return [f"{owner}.zero_grad()"] if owner.isidentifier() or study.entry.stack else []


def _in_words(weights: Iterable[torch.Tensor], frame: FrameType, backward: Site) -> str:
    """A variable with these weights, or a list of variables; loop variables do not count."""
    scope = function_node(backward)
    loops = (
        [each for each in ast.walk(scope) if isinstance(each, ast.For)] if scope is not None else []
    )
    passing = {name for each in loops for name in _names_in(each.target)}
    held = {name: each for name, each in variables(frame).items() if name not in passing}
    wanted = [id(each) for each in weights]
    for name, each in held.items():
        if type(each) in (list, tuple) and sorted(map(id, each)) == sorted(wanted):
            return name
    names = {id(each): name for name, each in held.items()}
    return f"[{', '.join(names[each] for each in wanted)}]" if set(wanted) <= names.keys() else ""


def _names_in(target: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


def _is_in(site: Site, loop: ast.For) -> bool:
    return loop.lineno <= site.f_lineno <= (loop.end_lineno or loop.lineno)


def _inserted(backward: Site, lines: list[str]) -> str | None:
    """Insert lines before backward."""
    statement = backward.statement()
    if not isinstance(statement, ast.Expr) or not lines:
        return None
    return diff_of(line_before(backward.filename, statement, *lines))
