"""Softmax runs over the batch or over one element.

What happened
    A softmax runs over an axis of size one, where it is always 1; or over the batch, where the
    samples of a batch share one probability.
Why it matters
    Over one element, earlier layers receive no gradient. Over the batch, a sample's prediction
    depends on the other samples of its batch, and no row is a distribution.
How it is detected
    Each softmax that the loss depends on is checked: its axis has size one in all steps so far;
    nll_loss or ctc_loss expects the classes on another axis; or the axis is axis 0 of a table
    inside a model whose rows reach the loss one by one and are samples (from a loader, indexed at
    random, or with one label each). For any other axis, a replay shows whether each labelled row of
    the loss depends on its own position only, apart from the softmax. In attention, the softmax
    runs over an axis that queries and keys share, such as heads, while the product with the values
    sums over the keys.
How to fix it
    Use the intended axis: dim=-1 for classes, the key axis for attention.
When it stays silent
    For attention weights that are summed over the axis, axes that were longer in another step,
    tables outside of models, tables of samples by samples, and scores that are normalised along
    both axes.
Cost
    A comparison for each softmax of a few recorded steps.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Loss, Study
from whence.lineage.dependence import by_element, one_to_one, part_at, reach
from whence.rules.loss.attending import summed_axis
from whence.rules.operations import LOSSES, RESHAPES
from whence.rules.rule import Rank, study_rule
from whence.rules.shape.samples import first_is_batch
from whence.rules.telling import place_of, shape_text, silent_finding
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.replay import Run
from whence.tape.scopes import Scope
from whence.tape.tape import Call, Value

NAMES = frozenset({"softmax", "log_softmax", "softmin"})
CLASS_AXES = {"nll_loss": 1, "ctc_loss": -1}
"""Losses of log-probabilities, and their class axis."""


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
            return silent_finding(
                study,
                "loss/softmax-axis",
                spot=place_of(call, study),
                symptom=symptom,
                call=call,
                step=study.step,
                verdict=f"{call.name} over an axis of size one: {shape_text(given.shape)}, "
                f"dim={axis}",
                what="its result is constant, and nothing before it gets a gradient",
                why="A softmax divides each value by the sum over the axis. Over a single value "
                "the result is always 1.",
                fix="Use the intended axis: "
                + (
                    f"dim={_longest(given)} has size {given.shape[_longest(given)]}."
                    if _longest(given) != axis
                    else "one with more than one element."
                ),
            )
        if (meant := summed_axis(study, call, axis)) is not None:
            return silent_finding(
                study,
                "loss/softmax-axis",
                spot=place_of(call, study),
                symptom=symptom,
                call=call,
                step=study.step,
                severity=Severity.WARNING,
                confidence=Confidence.LIKELY,
                verdict=f"{call.name} runs over dim={axis} of {shape_text(given.shape)}, but the "
                f"next product sums over dim={meant}",
                what="the weights that are summed do not add up to one",
                why=f"Queries meet keys along dim={meant}. dim={axis} is an axis that both share, "
                f"such as heads or samples, so its {given.shape[axis]} entries compete for one "
                "weight.",
                fix=f"Use dim={meant}, the axis that is summed over.",
                patch=_along(place_of(call, study), given, axis, meant),
            )
        if (read := _read_differently(study, loss, call, axis)) is not None:
            return _report_read(study, call, axis, *read)
        if isinstance(call.module, Scope) and _over_samples(study, loss, call, axis):
            others = [other for other, size in enumerate(given.shape) if other != axis and size > 1]
            if summed := _summed_over(study, call):
                others = summed
            return silent_finding(
                study,
                "loss/softmax-axis",
                spot=place_of(call, study),
                symptom=symptom,
                call=call,
                step=study.step,
                severity=Severity.WARNING,
                confidence=Confidence.LIKELY,
                verdict=f"{call.name} runs over the batch: dim={axis} of {shape_text(given.shape)}",
                what="the probabilities sum to one over the samples, not within a sample",
                why=f"Each sample's probabilities depend on the other {given.shape[axis] - 1} "
                "samples of its batch.",
                fix=f"Use dim={others[0]}, the axis that the next product sums over."
                if summed
                else f"Use dim={others[0]}, the only axis of a sample with more than one element."
                if len(others) == 1
                else "Use the intended axis: "
                f"{' or '.join(f'dim={each} (size {given.shape[each]})' for each in others)}.",
                patch=_along(place_of(call, study), given, axis, others[0])
                if len(others) == 1
                else None,
            )
    return None


def _read_differently(study: Study, loss: Loss, call: Call, axis: int) -> tuple[Call, int] | None:
    """The loss that receives these log-probabilities but expects another class axis; and which."""
    for each in study.path(loss.value) if call.name == "log_softmax" else ():
        if each.name not in CLASS_AXES or not each.operands or each.operands[0] not in call.outputs:
            continue
        axes = len(call.outputs[0].shape)
        wanted = CLASS_AXES[each.name] % axes if axes > 1 else 0
        if wanted != axis:
            return each, wanted
    return None


def _report_read(study: Study, call: Call, axis: int, reader: Call, wanted: int) -> Finding | None:
    given = call.operands[0]
    return silent_finding(
        study,
        "loss/softmax-axis",
        spot=place_of(call, study),
        symptom=Spot.of_site(reader.site) if reader.site is not None else None,
        call=call,
        step=study.step,
        verdict=f"{call.name} runs over dim={axis} of {shape_text(given.shape)}, but "
        f"{reader.name} expects classes on dim={wanted}",
        what=f"the probabilities of the {given.shape[wanted]} classes that {reader.name} reads do "
        "not sum to one",
        why=f"The probabilities sum to one over the {given.shape[axis]} entries of dim={axis} "
        "only.",
        fix=f"Use dim={wanted} in {call.name}.",
        patch=_along(place_of(call, study), given, axis, wanted),
    )


def _summed_over(study: Study, softmax: Call) -> list[int]:
    """The last axis, if the result is the left operand of a matrix product."""
    reached = {*softmax.outputs}
    for call in study.calls:
        if call.number <= softmax.number or not reached.intersection(call.operands):
            continue
        if call.name in ("matmul", "__matmul__", "bmm"):
            return [len(softmax.outputs[0].shape) - 1] if call.operands[0] in reached else []
        if call.outputs and call.outputs[0].shape == softmax.outputs[0].shape:
            reached.update(call.outputs)
    return []


def _along(spot: Spot | None, given: Value, axis: int, other: int) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call):
        return None
    written = (*node.args, *(word.value for word in node.keywords if word.arg == "dim"))
    found = [
        each
        for each in written
        if (number := _number(each)) is not None and number % len(given.shape) == axis
    ]
    return diff_of(replace_node(spot.filename, found[0], str(other))) if len(found) == 1 else None


def _number(node: ast.expr) -> int | None:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case ast.Constant(value=int(number)):
            return number
    return None


def _axis(call: Call, given: Value) -> int | None:
    axis: Any = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else None)
    if axis is None:
        axis = 0 if len(given.shape) in (0, 1, 3) else 1
    if (
        not isinstance(axis, int)
        or not given.shape
        or not -len(given.shape) <= axis < len(given.shape)
    ):
        return None
    return axis % len(given.shape)


def _longest(value: Value) -> int:
    """The axis after the batch that has the most elements."""
    axes = range(1, len(value.shape)) if len(value.shape) > 1 else range(1)
    return max(axes, key=lambda axis: value.shape[axis])


def _always_one(study: Study, call: Call) -> bool:
    for each in study.tape.all_earlier_at(call):
        axis = _axis(each, each.operands[0]) if each.operands else None
        if axis is not None and each.operands[0].shape[axis] != 1:
            return False
    return True


def _over_samples(study: Study, loss: Loss, call: Call, axis: int) -> bool:
    """Whether the axis holds the samples of a batch."""
    given = call.operands[0]
    samples = given.shape[axis]
    if (
        len(given.shape) < 2
        or samples < 2
        or given.numel == samples
        or list(given.shape).count(samples) > 1
    ):
        return False
    if any(
        _axis(each, given) not in (axis, None)
        for each in study.calls
        if each.name in NAMES and any(operand is given for operand in each.operands[:1])
    ):
        return False
    found = _loss_of_rows(study, call) if axis == 0 else None
    if found is not None and (first_is_batch(given) or _labelled(*found)):
        return True
    return any(
        _has_a_place_each(study, each, call, axis)
        for each in _labelling(study, loss, call, samples)
    )


def _labelling(study: Study, loss: Loss, call: Call, samples: int) -> Iterator[Call]:
    """Losses computed from the softmax, with one row and one label per sample."""
    for each in study.path(loss.value):
        rows = each.operands[0] if each.name in LOSSES and each.number > call.number else None
        if (
            rows is not None
            and rows.requires_grad
            and rows.shape[:1] == (samples,)
            and _labelled(each, samples)
        ):
            yield each


def _has_a_place_each(study: Study, loss: Call, softmax: Call, axis: int) -> bool:
    """Whether each row of the loss depends only on scores at its own position of the axis."""
    scores, rows = softmax.operands[0], loss.operands[0]

    def amend(call: Call, run: Run) -> None:
        if call is softmax:
            one_to_one(call, run)
        by_element(call, run)

    run = study.again(rows, scores, gradients=True, towards={scores}, amend=amend)
    for row in (0, scores.shape[axis] - 1):
        size = (
            reach(run, rows, part_at({0: row}, len(rows.shape)), scores)
            if run is not None
            else None
        )
        if size is None or size.shape != scores.shape:
            return False
        places = size.movedim(axis, 0).flatten(1).amax(1)
        if torch.nonzero(places).flatten().tolist() != [row]:
            return False
    return True


def _loss_of_rows(study: Study, call: Call) -> tuple[Call, int] | None:
    """The loss that the table reaches row by row, not summed over samples; and the row count."""
    reached = {id(value) for value in call.outputs}
    samples = call.outputs[0].shape[0]
    rows = {samples}
    for each in study.calls:
        if (
            each.number <= call.number
            or each.inner
            or not any(id(value) in reached for value in each.operands)
        ):
            continue
        if each.name in LOSSES or (each.outputs and not each.outputs[0].shape):
            return each, samples
        length = each.outputs[0].shape[0] if each.outputs else samples
        if (
            each.name in ("__getitem__", "index_select")
            and each.outputs[0].shape[1:] == call.outputs[0].shape[1:]
        ):
            # A selection of rows: the labelled nodes of a graph.
            samples = length
            rows.add(length)
        if each.name in RESHAPES | {"flatten"} and length % samples == 0:
            # The time steps of each sample, flattened.
            rows.add(length)
        if length not in rows:
            return None
        reached |= {id(value) for value in each.outputs}
    return None


def _labelled(loss: Call, samples: int) -> bool:
    """Whether the loss compares each row, or each of its time steps, with one label."""
    return any(
        not value.requires_grad
        and (
            value.shape == (samples, 1) or (len(value.shape) == 1 and value.shape[0] % samples == 0)
        )
        for value in loss.operands[1:]
        if loss.name in LOSSES
    )
