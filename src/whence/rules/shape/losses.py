"""Predictions and targets that a loss cannot compare."""

from __future__ import annotations

import ast

import torch

from whence.finding import Finding, Hop, Operand
from whence.ledgers.study import Study
from whence.lineage.properties import HasAxis, HasRank
from whence.lineage.trail import Birth, Trail, trace
from whence.rules.operations import CLASS_LOSSES, ELEMENTWISE, SAME_SHAPE_LOSSES, loss_operands
from whence.rules.rule import rule, study_rule
from whence.rules.shape.axes import Source, source_of
from whence.rules.shape.batch import batch_size
from whence.rules.shape.single_samples import (
    first_argument,
    loss_runs,
    unbatched_in_backward,
    unbatched_sample,
)
from whence.rules.telling import describe, failure_finding, shape_text, silent_finding, spot_at
from whence.source.edits import diff_of, in_parentheses, insert_after, replace_node
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.slices import BACKWARDS
from whence.tape.tape import Call
from whence.tape.trial import try_values


def _compared(failed: FailedCall) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Prediction and target of a loss, or of a hand-written difference with one that needs grad."""
    operands = loss_operands(failed)
    if operands is not None:
        return operands
    tensors = list(failed.tensors())
    if failed.name in ELEMENTWISE and len(tensors) == 2 and failed.scope is None:
        one, other = tensors
        if one.requires_grad != other.requires_grad and one.dim() and other.dim():
            return (one, other) if one.requires_grad else (other, one)
    return None


@rule("shape/batch-mismatch")
def batch_mismatch(failed: FailedCall) -> Finding | None:
    """Prediction and target have different batch sizes.

    What happened
        The first axes of prediction and target differ, so some samples have no target or some
        targets have no sample.
    Why it matters
        The loss only compares; the rows were lost or gained earlier, on one of the two sides.
    How it is detected
        The first axis of both is traced to the line that made its size. The side that disagrees
        with the batch the loader delivered is the cause.
    How to fix it
        Fix the reshape, index, crop or slice that changed the number of rows.
    When it stays silent
        Losses whose operands have the same number of rows.
    Cost
        None until a call raises.
    """
    if failed.name in BACKWARDS:
        return unbatched_in_backward(failed)
    operands = _compared(failed)
    if operands is None:
        return None
    prediction, target = operands
    if (
        failed.name in CLASS_LOSSES
        and prediction.dim() - target.dim() != 1
        and (prediction.dim() == 1 or not target.dim())
    ):
        return unbatched_sample(failed, prediction, target)
    if not prediction.dim() or not target.dim() or prediction.shape[0] == target.shape[0]:
        return None
    if 1 in (prediction.shape[0], target.shape[0]) and failed.name in ELEMENTWISE:
        return None
    sides = {"prediction": prediction, "target": target}
    trails = {
        name: trace(failed.value(each), HasAxis(-each.dim(), each.shape[0]), failed)
        for name, each in sides.items()
    }
    wrong_side = _wrong_side(failed, sides, trails)
    trail = trails[wrong_side] if wrong_side is not None else None
    return failure_finding(
        failed,
        "shape/batch-mismatch",
        verdict=f"batch sizes differ: {prediction.shape[0]} predictions, {target.shape[0]} targets",
        trail=trail,
        chain=() if wrong_side is not None else _origins(trails),
        why=_why(failed, sides, trails, wrong_side),
        fix=_fix(wrong_side),
        operands=(Operand("prediction", describe(prediction)), Operand("target", describe(target))),
        counterfactual=_with_equal_rows(failed, prediction, target),
    )


def _wrong_side(
    failed: FailedCall, sides: dict[str, torch.Tensor], trails: dict[str, Trail]
) -> str | None:
    """The side whose rows a call made, or that disagrees with the batch; None if neither does."""
    batch = batch_size(failed)
    for name, tensor in sides.items():
        other = sides["target" if name == "prediction" else "prediction"]
        if (
            batch is not None
            and tensor.shape[0] != batch
            and other.shape[0] == batch
            and trails[name].spot is not None
        ):
            return name
    earlier = failed.tape.earlier_at(failed.call)
    if earlier is not None and len(earlier.operands) >= 2:
        before = dict(zip(("prediction", "target"), earlier.operands, strict=False))
        departed = [
            name for name, tensor in sides.items() if before[name].shape[:1] != tensor.shape[:1]
        ]
        if len(departed) == 1 and trails[departed[0]].spot is not None:
            return departed[0]
    changed = [
        name for name, trail in trails.items() if trail.birth is Birth.CALL and not _creates(trail)
    ]
    return changed[0] if len(changed) == 1 else None


CREATIONS = frozenset(
    {
        "randn",
        "rand",
        "zeros",
        "ones",
        "randint",
        "tensor",
        "full",
        "empty",
        "arange",
        "linspace",
        "from_numpy",
        "normal",
    }
)


def _creates(trail: Trail) -> bool:
    return trail.op in CREATIONS


def _origins(trails: dict[str, Trail]) -> tuple[Hop, ...]:
    return tuple(
        trail.spot.hop(f"the number of rows of the {name} comes from here")
        for name, trail in trails.items()
        if trail.spot is not None
    )


def _why(
    failed: FailedCall,
    sides: dict[str, torch.Tensor],
    trails: dict[str, Trail],
    wrong_side: str | None,
) -> str:
    batch = batch_size(failed)
    if wrong_side is None:
        places = " and ".join(
            f"the {name}'s {sides[name].shape[0]} rows come from "
            f"{trail.spot.file}:{trail.spot.line}"
            for name, trail in trails.items()
            if trail.spot is not None
        )
        return f"Each prediction needs one target. {places[:1].upper()}{places[1:]}.".replace(
            " .", ""
        )
    made = trails[wrong_side]
    where = f"{made.spot.file}:{made.spot.line}" if made.spot is not None else "an unknown place"
    delivered = f" The loader delivered {batch} samples." if batch is not None else ""
    return (
        f"Each prediction needs one target. The {sides[wrong_side].shape[0]} rows of the "
        f"{wrong_side} come from {where} ({made.op}).{delivered}"
    )


def _fix(wrong_side: str | None) -> str:
    if wrong_side is None:
        return "Create input and target from the same rows."
    return f"Keep the first axis of the {wrong_side}, the samples, unchanged at the origin."


def _with_equal_rows(
    failed: FailedCall, prediction: torch.Tensor, target: torch.Tensor
) -> str | None:
    rows = min(prediction.shape[0], target.shape[0])

    def cut(each: torch.Tensor) -> torch.Tensor:
        return each[:rows] if each is prediction or each is target else each

    ran = callable(failed.func) and try_values(failed.func, failed.args, failed.kwargs, cut).ran
    return f"the same call on the first {rows} rows of both runs" if ran else None


@rule("shape/class-axis")
def class_axis(failed: FailedCall) -> Finding | None:
    """The class axis is at the wrong place, or the target has an extra axis.

    What happened
        Cross entropy expects the classes at axis 1 and a target without that axis. Here the classes
        are elsewhere (last, as in language models), or the target has an extra axis (a mask of
        shape (N, 1, H, W), one-hot labels).
    Why it matters
        If the sizes happen to agree nothing raises, and the loss compares the wrong values.
    How it is detected
        The shapes of prediction and target fit after one axis is moved or removed, and the loss
        runs on tensors changed in that way.
    How to fix it
        transpose(1, 2) or flatten(0, 1) for the prediction; squeeze(1) or argmax(1) for the target.
    When it stays silent
        Targets that are probabilities, with the shape of the prediction.
    Cost
        None until a call raises.
    """
    operands = loss_operands(failed)
    if operands is None or failed.name not in CLASS_LOSSES:
        return None
    prediction, target = operands
    if prediction.dim() < 2 or target.dim() < 1 or prediction.shape[0] != target.shape[0]:
        return None
    common = (Operand("prediction", describe(prediction)), Operand("target", describe(target)))
    if target.dim() == prediction.dim() and not target.is_floating_point():
        return _extra_axis(failed, prediction, target, common)
    if prediction.dim() >= 3 and target.shape == prediction.shape[:-1] and target.dim() >= 2:
        return _classes_last(failed, prediction, target, common)
    return None


def _extra_axis(
    failed: FailedCall,
    prediction: torch.Tensor,
    target: torch.Tensor,
    operands: tuple[Operand, ...],
) -> Finding | None:
    if target.shape[1] == 1:
        trail = trace(failed.value(target), HasAxis(1 - target.dim(), 1), failed)
        corrected = target.squeeze(1)
        how, fix = (
            "squeeze(1)",
            "Remove the axis of size 1 where it is added: class masks are (N, H, W), labels (N,).",
        )
    elif target.shape == prediction.shape:
        trail = trace(failed.value(target), HasAxis(1 - target.dim(), target.shape[1]), failed)
        corrected = target.long().argmax(1)
        how, fix = (
            "argmax(1)",
            "Pass class indices instead of one-hot rows, argmax(1), or make the one-hot rows "
            "float.",
        )
    else:
        return None
    return failure_finding(
        failed,
        "shape/class-axis",
        verdict=f"the target has an extra axis for {failed.name}: {shape_text(target.shape)}, "
        f"expected {shape_text((prediction.shape[0], *prediction.shape[2:]))}",
        trail=trail,
        why=f"For a prediction of {shape_text(prediction.shape)}, {failed.name} expects one class "
        "index per position, without the class axis.",
        fix=fix,
        operands=operands,
        counterfactual=loss_runs(
            failed, prediction, prediction, target, corrected, f"the target's {how}"
        ),
        patch=_without_unsqueeze(trail.spot)
        if trail.birth is not Birth.UNKNOWN and target.shape != prediction.shape
        else None,
    )


def _classes_last(
    failed: FailedCall,
    prediction: torch.Tensor,
    target: torch.Tensor,
    operands: tuple[Operand, ...],
) -> Finding | None:
    moved = prediction.movedim(-1, 1)
    proof = loss_runs(failed, prediction, moved, target, target, "the classes moved to axis 1")
    if proof is None:
        return None
    how = ".transpose(1, 2)" if prediction.dim() == 3 else ".movedim(-1, 1)"
    spot = Spot.of_site(failed.site) if failed.site is not None else None
    return failure_finding(
        failed,
        "shape/class-axis",
        verdict=f"the classes are on the last axis of {shape_text(prediction.shape)}, "
        f"{failed.name} reads axis 1",
        spot=spot,
        why=f"{failed.name} reads axis 1 (size {prediction.shape[1]}) as classes. The target "
        f"{shape_text(target.shape)} matches a prediction with the classes last "
        f"(size {prediction.shape[-1]}).",
        fix=f"Move the class axis: prediction{how}, or flatten batch and length of both.",
        patch=first_argument(spot, how),
        operands=operands,
        counterfactual=proof,
    )


def _without_unsqueeze(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr != "unsqueeze":
        return None
    return diff_of(
        replace_node(spot.filename, node, in_parentheses(spot.filename, node.func.value))
    )


@rule("shape/target")
def target_shape(failed: FailedCall) -> Finding | None:
    """Target and prediction shapes differ in a loss that requires equal shapes.

    What happened
        Binary cross entropy and similar losses require equal shapes; often one is (N, 1) and the
        other (N,).
    Why it matters
        Losses that accept this (MSE) broadcast to (N, N) and optimize the wrong quantity.
    How it is detected
        Both shapes in the loss that raised, with the same number of rows.
    How to fix it
        Remove the axis of size 1 from the prediction, squeeze(-1), rather than reshape the target.
    When it stays silent
        If the numbers of rows differ; shape/batch-mismatch reports that.
    Cost
        None until a call raises.
    """
    operands = loss_operands(failed)
    if operands is None or failed.name not in SAME_SHAPE_LOSSES:
        return None
    prediction, target = operands
    if (
        prediction.shape == target.shape
        or not prediction.dim()
        or prediction.shape[:1] != target.shape[:1]
    ):
        return None
    earlier = failed.tape.earlier_like(failed.call)
    if (
        earlier is not None
        and len(earlier.operands) >= 2
        and len(earlier.operands[1].shape) != target.dim() == prediction.dim() - 1
    ):
        return _other_rank(failed, prediction, target, earlier)
    if prediction.shape[:-1] == target.shape[:-1] and 1 not in (
        prediction.shape[-1],
        target.shape[-1],
    ):
        return _other_size(failed, prediction, target)
    spot = Spot.of_site(failed.site) if failed.site is not None else None
    extra = _single_axis(prediction, target)
    lacks_axis = target.dim() == prediction.dim() + 1 and target.shape[-1] == 1
    new = (
        prediction.squeeze(extra)
        if extra is not None
        else prediction.unsqueeze(-1)
        if lacks_axis
        else prediction
    )
    how = f".squeeze({extra})" if extra is not None else ".unsqueeze(-1)" if lacks_axis else ""
    return failure_finding(
        failed,
        "shape/target",
        verdict=f"{failed.name} expects equal shapes, got prediction "
        f"{shape_text(prediction.shape)}, target {shape_text(target.shape)}",
        spot=spot,
        why="This loss compares element by element and does not broadcast.",
        fix=f"Give the prediction the target's shape: prediction{how}."
        if how
        else "Reshape the prediction or the target so that both have the same shape.",
        patch=first_argument(spot, how) if how else None,
        operands=(Operand("prediction", describe(prediction)), Operand("target", describe(target))),
        counterfactual=loss_runs(failed, prediction, new, target, target, f"prediction{how}")
        if how
        else None,
    )


def _single_axis(prediction: torch.Tensor, target: torch.Tensor) -> int | None:
    """The axis of size 1 that only the prediction has: the last, or the channel axis."""
    if prediction.dim() != target.dim() + 1:
        return None
    if prediction.shape[-1] == 1:
        return -1
    axes = range(1, prediction.dim())
    return next(
        (
            each
            for each in axes
            if prediction.shape[each] == 1 and prediction.squeeze(each).shape == target.shape
        ),
        None,
    )


def _other_size(
    failed: FailedCall, prediction: torch.Tensor, target: torch.Tensor
) -> Finding | None:
    """The number of outputs per sample differs from the number of targets."""
    made, wanted = prediction.shape[-1], target.shape[-1]
    trail = trace(failed.value(prediction), HasAxis(-1, made), failed)
    layer = trail.birth is Birth.LAYER
    return failure_finding(
        failed,
        "shape/target",
        verdict=f"{failed.name} got {made} outputs and {wanted} targets per sample",
        trail=trail if layer else None,
        spot=trail.counted
        if layer
        else Spot.of_site(failed.site)
        if failed.site is not None
        else None,
        why=f"The prediction is {shape_text(prediction.shape)}, the target "
        f"{shape_text(target.shape)}; this loss compares them element by element.",
        fix=f"Give the last layer {wanted} outputs, if the targets are right."
        if layer
        else "Give prediction and target the same last size.",
        patch=_more_outputs_patch(trail.counted, wanted - made)
        if layer and wanted > made
        else None,
        operands=(Operand("prediction", describe(prediction)), Operand("target", describe(target))),
    )


def _more_outputs_patch(counted: Spot | None, more: int) -> str | None:
    """Add `more` to the counted number of outputs."""
    node = counted.node() if counted is not None else None
    node = node.value if isinstance(node, ast.Assign) else node
    return (
        diff_of(insert_after(counted.filename, node, f" + {more}"))
        if counted is not None and node
        else None
    )


def _other_rank(
    failed: FailedCall, prediction: torch.Tensor, target: torch.Tensor, earlier: Call
) -> Finding | None:
    """The same loss succeeded with targets of another rank; this target lacks an axis."""
    before = earlier.operands[1]
    trail = trace(failed.value(target), HasRank(target.dim()), failed)
    return failure_finding(
        failed,
        "shape/target",
        verdict=f"the target is {shape_text(target.shape)}; "
        f"earlier targets were {shape_text(before.shape)}",
        trail=trail,
        why=f"The same loss succeeded with a target of {shape_text(before.shape)}. This target has "
        f"another rank, and the prediction is {shape_text(prediction.shape)}.",
        fix="Create this target in the same way as the earlier ones.",
        operands=(Operand("prediction", describe(prediction)), Operand("target", describe(target))),
        counterfactual=loss_runs(
            failed,
            prediction,
            prediction,
            target,
            target.unsqueeze(-1),
            "the target's axis restored",
        ),
    )


@study_rule("shape/class-axis")
def silent_class_axis(study: Study) -> Finding | None:
    """The classes are last, and axis 1 has the same size: nothing raises, the loss is wrong."""
    for loss, call in study.loss_calls():
        given = next(iter(call.operands), None)
        if (
            call.name not in CLASS_LOSSES
            or given is None
            or len(given.shape) < 3
            or call.site is None
        ):
            continue
        if given.shape[1] != given.shape[-1] or source_of(given, -1)[0] is not Source.WEIGHT:
            continue
        if source_of(given, 1 - len(given.shape))[0] is Source.WEIGHT:
            continue
        return silent_finding(
            study,
            "shape/class-axis",
            spot=Spot.of_site(call.site),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            verdict=f"the classes are on the last axis of {shape_text(given.shape)}, "
            f"{call.name} reads axis 1",
            what="both axes have the same size, so nothing raises: the loss compares wrong values",
            why="A layer's output made the last axis, so it holds the classes. Axis 1 comes with "
            f"the input, and {call.name} reads it as the classes.",
            fix="Move the classes to axis 1 (`.transpose(1, 2)`), or flatten both: "
            "`logits.flatten(0, 1), target.flatten()`.",
            patch=first_argument(Spot.of_site(call.site), ".transpose(1, 2)")
            if len(given.shape) == 3
            else None,
            operands=(Operand("prediction", describe(given)),),
        )
    return None
