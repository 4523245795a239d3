"""Prediction and target that a loss refuses to compare."""

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
from whence.rules.shape.single_samples import first_argument, loss_runs, taken_without_batch, without_batch
from whence.rules.telling import describe, shape_text, spot_at, tell, tell_silent
from whence.source.edits import diff_of, in_parentheses, insert_after, replace_node
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.slices import BACKWARDS
from whence.tape.tape import Call
from whence.tape.trial import try_values


def _compared(failed: FailedCall) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Prediction and target: of a loss, or of a difference written by hand between a result with and one without gradient."""
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
        The first axes of prediction and target differ, so there are samples without a target or targets without a sample.
    Why it matters
        The loss only compares; the rows were lost or gained on one of the two ways to it.
    How it is detected
        The first axis of both, each followed back to where its size was made. The one that does not agree with the batch
        the loader delivered is the guilty one.
    How to fix it
        Mend the reshape, index, crop or slice that changed the number of rows.
    When it stays silent
        Losses whose operands have the same number of rows.
    Cost
        None until a call raises.
    """
    if failed.name in BACKWARDS:
        return taken_without_batch(failed)
    operands = _compared(failed)
    if operands is None:
        return None
    prediction, target = operands
    if (
        failed.name in CLASS_LOSSES
        and prediction.dim() - target.dim() != 1
        and (prediction.dim() == 1 or not target.dim())
    ):
        return without_batch(failed, prediction, target)
    if not prediction.dim() or not target.dim() or prediction.shape[0] == target.shape[0]:
        return None
    if 1 in (prediction.shape[0], target.shape[0]) and failed.name in ELEMENTWISE:
        return None
    sides = {"prediction": prediction, "target": target}
    trails = {
        name: trace(failed.value(each), HasAxis(-each.dim(), each.shape[0]), failed) for name, each in sides.items()
    }
    guilty = _guilty(failed, sides, trails)
    trail = trails[guilty] if guilty is not None else None
    return tell(
        failed,
        "shape/batch-mismatch",
        verdict=f"{prediction.shape[0]} predictions against {target.shape[0]} targets",
        trail=trail,
        chain=() if guilty is not None else _births(trails),
        why=_why(failed, sides, trails, guilty),
        fix=_fix(guilty),
        operands=(Operand("prediction", describe(prediction)), Operand("target", describe(target))),
        counterfactual=_with_equal_rows(failed, prediction, target),
    )


def _guilty(failed: FailedCall, sides: dict[str, torch.Tensor], trails: dict[str, Trail]) -> str | None:
    """The side whose rows were made by a call on the way, or do not agree with the batch; None if both look right."""
    batch = batch_size(failed)
    for name, tensor in sides.items():
        other = sides["target" if name == "prediction" else "prediction"]
        if batch is not None and tensor.shape[0] != batch and other.shape[0] == batch and trails[name].spot is not None:
            return name
    earlier = failed.tape.earlier_at(failed.call)
    if earlier is not None and len(earlier.operands) >= 2:
        before = dict(zip(("prediction", "target"), earlier.operands, strict=False))
        departed = [name for name, tensor in sides.items() if before[name].shape[:1] != tensor.shape[:1]]
        if len(departed) == 1 and trails[departed[0]].spot is not None:
            return departed[0]
    changed = [name for name, trail in trails.items() if trail.birth is Birth.CALL and not _creates(trail)]
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


def _births(trails: dict[str, Trail]) -> tuple[Hop, ...]:
    return tuple(
        trail.spot.hop(f"the {name}'s rows are made here") for name, trail in trails.items() if trail.spot is not None
    )


def _why(failed: FailedCall, sides: dict[str, torch.Tensor], trails: dict[str, Trail], guilty: str | None) -> str:
    batch = batch_size(failed)
    if guilty is None:
        places = " and ".join(
            f"the {name}'s {sides[name].shape[0]} rows come from {trail.spot.file}:{trail.spot.line}"
            for name, trail in trails.items()
            if trail.spot is not None
        )
        return f"Every prediction needs its target. {places[:1].upper()}{places[1:]}.".replace(" .", "")
    made = trails[guilty]
    where = f"{made.spot.file}:{made.spot.line}" if made.spot is not None else "an unknown place"
    delivered = f" The loader delivered {batch} samples." if batch is not None else ""
    return f"Every prediction needs its target; the {guilty}'s {sides[guilty].shape[0]} rows were made at {where} ({made.op}).{delivered}"


def _fix(guilty: str | None) -> str:
    if guilty is None:
        return "Make input and target from the same rows."
    return f"Keep the number of rows of the {guilty} at that line: the first axis belongs to the samples."


def _with_equal_rows(failed: FailedCall, prediction: torch.Tensor, target: torch.Tensor) -> str | None:
    rows = min(prediction.shape[0], target.shape[0])

    def mend(each: torch.Tensor) -> torch.Tensor:
        return each[:rows] if each is prediction or each is target else each

    ran = callable(failed.func) and try_values(failed.func, failed.args, failed.kwargs, mend).ran
    return f"the same call on the first {rows} rows of both runs" if ran else None


@rule("shape/class-axis")
def class_axis(failed: FailedCall) -> Finding | None:
    """The class axis or the mask shape is wrong for the loss.

    What happened
        Cross entropy wants the classes at axis 1 and a target without that axis. Here the classes are elsewhere (at the
        end, as in language models), or the target has an axis too many (a mask of shape (N, 1, H, W), one-hot labels).
    Why it matters
        Where the sizes happen to agree nothing raises, and the loss compares the wrong things.
    How it is detected
        The shapes of prediction and target: with one axis moved or taken away they fit, and the loss is tried so.
    How to fix it
        transpose(1, 2) or flatten(0, 1) for the prediction; squeeze(1) or argmax(1) for the target.
    When it stays silent
        Targets that are probabilities, of the same shape as the prediction.
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
    failed: FailedCall, prediction: torch.Tensor, target: torch.Tensor, operands: tuple[Operand, ...]
) -> Finding | None:
    if target.shape[1] == 1:
        trail = trace(failed.value(target), HasAxis(1 - target.dim(), 1), failed)
        mended = target.squeeze(1)
        how, fix = (
            "squeeze(1)",
            "Take the axis of size one away where it is added: a mask of classes is (N, H, W), labels are (N,).",
        )
    elif target.shape == prediction.shape:
        trail = trace(failed.value(target), HasAxis(1 - target.dim(), target.shape[1]), failed)
        mended = target.long().argmax(1)
        how, fix = "argmax(1)", "Give class numbers instead of one-hot rows, argmax(1), or make the one-hot rows float."
    else:
        return None
    return tell(
        failed,
        "shape/class-axis",
        verdict=f"the target has an axis too many for {failed.name}: {shape_text(target.shape)}",
        trail=trail,
        why=f"For a prediction of {shape_text(prediction.shape)} the target is one class number for each place, "
        f"{shape_text((prediction.shape[0], *prediction.shape[2:]))}.",
        fix=fix,
        operands=operands,
        counterfactual=loss_runs(failed, prediction, prediction, target, mended, f"the target's {how}"),
        patch=_without_unsqueeze(trail.spot)
        if trail.birth is not Birth.UNKNOWN and target.shape != prediction.shape
        else None,
    )


def _classes_last(
    failed: FailedCall, prediction: torch.Tensor, target: torch.Tensor, operands: tuple[Operand, ...]
) -> Finding | None:
    moved = prediction.movedim(-1, 1)
    proof = loss_runs(failed, prediction, moved, target, target, "the classes moved to axis 1")
    if proof is None:
        return None
    how = ".transpose(1, 2)" if prediction.dim() == 3 else ".movedim(-1, 1)"
    spot = Spot.of_site(failed.site) if failed.site is not None else None
    return tell(
        failed,
        "shape/class-axis",
        verdict=f"the classes are at the last axis of {shape_text(prediction.shape)}, {failed.name} reads axis 1",
        spot=spot,
        why=f"{failed.name} takes axis 1 ({prediction.shape[1]}) for the classes; the target {shape_text(target.shape)} shows "
        f"that they are at the end ({prediction.shape[-1]}).",
        fix=f"Move them: {how[1:]} of the prediction, or flatten batch and length of both.",
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
    return diff_of(replace_node(spot.filename, node, in_parentheses(spot.filename, node.func.value)))


@rule("shape/target")
def target_shape(failed: FailedCall) -> Finding | None:
    """Target and prediction shapes differ in a loss that refuses it.

    What happened
        Binary cross entropy and its like want both shapes the same; often one is (N, 1) and the other (N,).
    Why it matters
        Losses that do not refuse it (MSE) would broadcast to (N, N) and train the wrong thing.
    How it is detected
        Both shapes in the loss that raised, with the same number of rows.
    How to fix it
        Take the axis of size one from the prediction, squeeze(-1), rather than reshaping the target blindly.
    When it stays silent
        If the numbers of rows differ: that is another mistake.
    Cost
        None until a call raises.
    """
    operands = loss_operands(failed)
    if operands is None or failed.name not in SAME_SHAPE_LOSSES:
        return None
    prediction, target = operands
    if prediction.shape == target.shape or not prediction.dim() or prediction.shape[:1] != target.shape[:1]:
        return None
    earlier = failed.tape.earlier_like(failed.call)
    if (
        earlier is not None
        and len(earlier.operands) >= 2
        and len(earlier.operands[1].shape) != target.dim() == prediction.dim() - 1
    ):
        return _departed_target(failed, prediction, target, earlier)
    if prediction.shape[:-1] == target.shape[:-1] and 1 not in (prediction.shape[-1], target.shape[-1]):
        return _other_size(failed, prediction, target)
    spot = Spot.of_site(failed.site) if failed.site is not None else None
    extra = _single_axis(prediction, target)
    lacks_axis = target.dim() == prediction.dim() + 1 and target.shape[-1] == 1
    new = prediction.squeeze(extra) if extra is not None else prediction.unsqueeze(-1) if lacks_axis else prediction
    how = f".squeeze({extra})" if extra is not None else ".unsqueeze(-1)" if lacks_axis else ""
    return tell(
        failed,
        "shape/target",
        verdict=f"{failed.name} got a prediction of {shape_text(prediction.shape)} and a target of {shape_text(target.shape)}",
        spot=spot,
        why="This loss compares element by element and refuses shapes that differ, rather than broadcast them.",
        fix=f"Give the prediction the target's shape: prediction{how}."
        if how
        else "Give prediction and target the same shape.",
        patch=first_argument(spot, how) if how else None,
        operands=(Operand("prediction", describe(prediction)), Operand("target", describe(target))),
        counterfactual=loss_runs(failed, prediction, new, target, target, f"prediction{how}") if how else None,
    )


def _single_axis(prediction: torch.Tensor, target: torch.Tensor) -> int | None:
    """The axis of one element that the prediction has and the target has not: the last, or that of the channel."""
    if prediction.dim() != target.dim() + 1:
        return None
    if prediction.shape[-1] == 1:
        return -1
    axes = range(1, prediction.dim())
    return next(
        (each for each in axes if prediction.shape[each] == 1 and prediction.squeeze(each).shape == target.shape), None
    )


def _other_size(failed: FailedCall, prediction: torch.Tensor, target: torch.Tensor) -> Finding | None:
    """A layer makes another number of outputs than the targets have."""
    made, wanted = prediction.shape[-1], target.shape[-1]
    trail = trace(failed.value(prediction), HasAxis(-1, made), failed)
    layer = trail.birth is Birth.LAYER
    return tell(
        failed,
        "shape/target",
        verdict=f"{failed.name} got {made} outputs for each sample and {wanted} targets",
        trail=trail if layer else None,
        spot=trail.counted if layer else Spot.of_site(failed.site) if failed.site is not None else None,
        why=f"The prediction is {shape_text(prediction.shape)}, the target {shape_text(target.shape)}: this loss compares them one by one.",
        fix=f"Give the last layer {wanted} outputs, if the targets are right." if layer else "Give both the same size.",
        patch=_more(trail.counted, wanted - made) if layer and wanted > made else None,
        operands=(Operand("prediction", describe(prediction)), Operand("target", describe(target))),
    )


def _more(counted: Spot | None, more: int) -> str | None:
    """As many as were counted, and these."""
    node = counted.node() if counted is not None else None
    node = node.value if isinstance(node, ast.Assign) else node
    return diff_of(insert_after(counted.filename, node, f" + {more}")) if counted is not None and node else None


def _departed_target(
    failed: FailedCall, prediction: torch.Tensor, target: torch.Tensor, earlier: Call
) -> Finding | None:
    """The same loss went well with targets of another rank: this target's maker left an axis out."""
    before = earlier.operands[1]
    trail = trace(failed.value(target), HasRank(target.dim()), failed)
    return tell(
        failed,
        "shape/target",
        verdict=f"targets are {shape_text(target.shape)} here and were {shape_text(before.shape)} before",
        trail=trail,
        why=f"The same loss went well with {shape_text(before.shape)}; these targets were made in another way, and the prediction is {shape_text(prediction.shape)}.",
        fix="Make these targets as the others are made.",
        operands=(Operand("prediction", describe(prediction)), Operand("target", describe(target))),
        counterfactual=loss_runs(
            failed, prediction, prediction, target, target.unsqueeze(-1), "the target's axis put back"
        ),
    )


@study_rule("shape/class-axis")
def silent_class_axis(study: Study) -> Finding | None:
    """The classes are at the last axis, which is as long as axis 1: nothing raises, and the loss reads time as classes."""
    for loss, call in study.loss_calls():
        given = next(iter(call.operands), None)
        if call.name not in CLASS_LOSSES or given is None or len(given.shape) < 3 or call.site is None:
            continue
        if given.shape[1] != given.shape[-1] or source_of(given, -1)[0] is not Source.WEIGHT:
            continue
        if source_of(given, 1 - len(given.shape))[0] is Source.WEIGHT:
            continue
        return tell_silent(
            study,
            "shape/class-axis",
            spot=Spot.of_site(call.site),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            verdict=f"the classes are at the last axis of {shape_text(given.shape)}, {call.name} reads axis 1",
            what="both axes have the same size, so nothing raises: the loss compares the wrong numbers",
            why=f"The size of the last axis is that of a layer's output, the classes; axis 1 comes with the input, and {call.name} takes it for the classes.",
            fix="Move the classes to axis 1 (`.transpose(1, 2)`), or flatten both: `logits.flatten(0, 1), target.flatten()`.",
            patch=first_argument(Spot.of_site(call.site), ".transpose(1, 2)") if len(given.shape) == 3 else None,
            operands=(Operand("prediction", describe(given)),),
        )
    return None
