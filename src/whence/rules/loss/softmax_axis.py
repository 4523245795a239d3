"""Softmax runs over the batch or over one element.

What happened
    A softmax is taken over an axis of size one, where it is always 1; or over the batch, where the samples of a batch share one
    probability.
Why it matters
    Over one element nothing before it gets a gradient. Over the batch, a sample's prediction depends on which others are in its batch,
    and no row is a distribution.
How it is detected
    The axis of each softmax that the loss depends on: its size, in all passes so far; or axis 0 of a table inside a model whose rows go on
    to the loss one by one, and are samples: a loader's, rows picked at random, or rows with one label each.
How to fix it
    The axis that is meant: dim=-1 for classes, the axis of time for attention.
When it stays silent
    Attention weights that are summed over the axis, axes that were longer in another pass, tables outside of models, tables of samples
    by samples, and scores that are normalised along both axes.
Cost
    A comparison for each softmax of a few recorded steps.
"""

from __future__ import annotations

import ast
from typing import Any

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Study
from whence.rules.operations import LOSSES, RESHAPES
from whence.rules.rule import Rank, study_rule
from whence.rules.shape.silent import first_is_batch
from whence.rules.telling import place_of, shape_text, tell_silent
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.scopes import Scope
from whence.tape.tape import Call, Value

NAMES = frozenset({"softmax", "log_softmax", "softmin"})


@study_rule("loss/softmax-axis", Rank.CAUSE)
def softmax_axis(study: Study) -> Finding | None:
    for loss, call in study.loss_calls():
        if call.name not in NAMES or not call.operands or not call.operands[0].requires_grad:
            continue
        given = call.operands[0]
        axis = _axis(call, given)
        if axis is None:
            continue
        symptom = Spot.of_site(loss.call.site) if loss.call.site is not None else None
        if given.shape[axis] == 1 and given.numel > 1 and _always_one(study, call):
            return tell_silent(
                study,
                "loss/softmax-axis",
                spot=place_of(call, study),
                symptom=symptom,
                call=call,
                step=study.step,
                verdict=f"{call.name} over an axis of size one: {shape_text(given.shape)}, dim={axis}",
                what="its result is 1 everywhere, and nothing before it gets a gradient",
                why="A softmax divides each number by the sum over the axis; over one number that is the number itself.",
                fix="Take the axis that is meant: here "
                + (
                    f"{_longest(given)}, of size {given.shape[_longest(given)]}."
                    if _longest(given) != axis
                    else "another one."
                ),
            )
        if axis == 0 and isinstance(call.module, Scope) and _over_samples(study, call, given):
            others = [axis for axis, size in enumerate(given.shape) if axis and size > 1]
            return tell_silent(
                study,
                "loss/softmax-axis",
                spot=place_of(call, study),
                symptom=symptom,
                call=call,
                step=study.step,
                severity=Severity.ERROR,
                confidence=Confidence.LIKELY,
                verdict=f"{call.name} over the batch: dim=0 of {shape_text(given.shape)}",
                what="the columns add up to one over the samples, not the numbers of a sample",
                why=f"A sample's probabilities depend on the other {given.shape[0] - 1} samples of its batch.",
                fix=f"Use dim={others[0]}, the only axis of a sample with more than one number."
                if len(others) == 1
                else f"Use the axis that is meant: {' or '.join(f'dim={each}, of size {given.shape[each]}' for each in others)}.",
                patch=_along(place_of(call, study), others[0]) if len(others) == 1 else None,
            )
    return None


def _along(spot: Spot | None, axis: int) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call):
        return None
    zeros = [
        each for each in (*node.args, *(word.value for word in node.keywords if word.arg == "dim")) if _is_zero(each)
    ]
    return diff_of(replace_node(spot.filename, zeros[0], str(axis))) if len(zeros) == 1 else None


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and type(node.value) is int


def _axis(call: Call, given: Value) -> int | None:
    axis: Any = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else None)
    if axis is None:
        axis = 0 if len(given.shape) in (0, 1, 3) else 1
    if not isinstance(axis, int) or not given.shape or not -len(given.shape) <= axis < len(given.shape):
        return None
    return axis % len(given.shape)


def _longest(value: Value) -> int:
    """The axis behind the batch that has the most elements."""
    axes = range(1, len(value.shape)) if len(value.shape) > 1 else range(1)
    return max(axes, key=lambda axis: value.shape[axis])


def _always_one(study: Study, call: Call) -> bool:
    for each in study.tape.all_earlier_at(call):
        axis = _axis(each, each.operands[0]) if each.operands else None
        if axis is not None and each.operands[0].shape[axis] != 1:
            return False
    return True


def _over_samples(study: Study, call: Call, given: Value) -> bool:
    """Whether axis 0 is the samples of a batch, which reach the loss one by one."""
    if len(given.shape) < 2 or given.shape[0] < 2 or given.numel == given.shape[0] or given.shape[0] in given.shape[1:]:
        return False
    if any(
        _axis(each, given) not in (0, None)
        for each in study.calls
        if each.name in NAMES and any(operand is given for operand in each.operands[:1])
    ):
        return False
    found = _loss_of_rows(study, call)
    return found is not None and (first_is_batch(given) or _labelled(*found))


def _loss_of_rows(study: Study, call: Call) -> tuple[Call, int] | None:
    """The loss that the table reaches row by row, and not summed over its samples as attention weights are; and how many rows reach it."""
    reached = {id(value) for value in call.outputs}
    samples = call.outputs[0].shape[0]
    rows = {samples}
    for each in study.calls:
        if each.number <= call.number or each.inner or not any(id(value) in reached for value in each.operands):
            continue
        if each.name in LOSSES or (each.outputs and not each.outputs[0].shape):
            return each, samples
        length = each.outputs[0].shape[0] if each.outputs else samples
        if each.name in ("__getitem__", "index_select") and each.outputs[0].shape[1:] == call.outputs[0].shape[1:]:
            # Some of the rows: the nodes of a graph that have labels.
            samples = length
            rows.add(length)
        if each.name in RESHAPES | {"flatten"} and length % samples == 0:
            # The steps of each sample, one below the other.
            rows.add(length)
        if length not in rows:
            return None
        reached |= {id(value) for value in each.outputs}
    return None


def _labelled(loss: Call, samples: int) -> bool:
    """Whether the loss compares each row, or each of its steps, with one label: then rows are samples."""
    return any(
        not value.requires_grad
        and (value.shape == (samples, 1) or (len(value.shape) == 1 and value.shape[0] % samples == 0))
        for value in loss.operands[1:]
        if loss.name in LOSSES
    )
