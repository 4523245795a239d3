"""Targets of a type that the loss cannot use."""

from __future__ import annotations

import torch

from whence.finding import Finding, Operand
from whence.rules.dtype.operands import birth, cast_patch, cured_by_cast
from whence.rules.operations import CLASS_LOSSES, SAME_SHAPE_LOSSES, loss_operands
from whence.rules.rule import rule
from whence.rules.telling import describe, dtype_name, shape_text, tell
from whence.tape.failed import FailedCall

CLASS_TYPES = (torch.int64, torch.uint8)


@rule("dtype/labels")
def labels(failed: FailedCall) -> Finding | None:
    """Class labels have a float or otherwise wrong type.

    What happened
        Cross entropy was given class labels that are not int64: floats from a numpy table, from torch.Tensor(...), or
        another integer type.
    Why it matters
        Torch then takes them for class probabilities, or complains about their shape although the type is the disease.
    How it is detected
        The target's type and shape: one value per sample, where a class index belongs. The type is followed back to
        where the labels were made.
    How to fix it
        Make the labels int64 where they are made. A float label column often means that it has missing values: look first.
    When it stays silent
        Soft labels: a float target with the shape of the prediction.
    Cost
        None until a call raises.
    """
    operands = loss_operands(failed)
    if operands is None or failed.name not in CLASS_LOSSES:
        return None
    prediction, target = operands
    soft = target.is_floating_point() and target.shape == prediction.shape
    if target.dtype in CLASS_TYPES or soft or target.dim() > prediction.dim():
        return None
    trail = birth(failed, target)
    cured = cured_by_cast(failed, target, torch.int64)
    return tell(
        failed,
        "dtype/labels",
        verdict=f"class labels are {dtype_name(target.dtype)}, {failed.name} needs int64",
        trail=trail,
        why=f"A label is the number of a class, so {failed.name} takes {shape_text(target.shape)} of int64 here; "
        f"floats are taken for class probabilities and would need the shape {shape_text(prediction.shape)}.",
        fix="Make the labels int64 where they are made. If they are float because a value is missing, mend that first.",
        patch=cast_patch(trail, torch.int64),
        operands=(Operand("target", describe(target)), Operand("prediction", describe(prediction))),
        counterfactual="the same loss with the labels as int64 runs" if cured else None,
    )


@rule("dtype/integer-target")
def integer_target(failed: FailedCall) -> Finding | None:
    """An integer target reached a loss that needs floats.

    What happened
        A loss that subtracts or multiplies (BCE, BCE with logits, MSE, ...) was given integer targets.
    Why it matters
        The message speaks of a result type; the cause is the target's type.
    How it is detected
        The target's type in the loss that raised, followed back to where the targets were made.
    How to fix it
        Make the targets float where they are made.
    When it stays silent
        Losses over classes, which want integers, and losses that convert by themselves.
    Cost
        None until a call raises.
    """
    operands = loss_operands(failed)
    if operands is None or failed.name not in SAME_SHAPE_LOSSES:
        return None
    prediction, target = operands
    if target.is_floating_point() or not prediction.is_floating_point():
        return None
    cured = cured_by_cast(failed, target, prediction.dtype)
    if (
        not cured
        and target.shape != prediction.shape
        and failed.name not in ("binary_cross_entropy", "binary_cross_entropy_with_logits")
    ):
        return None
    trail = birth(failed, target)
    wanted = dtype_name(prediction.dtype)
    return tell(
        failed,
        "dtype/integer-target",
        verdict=f"the target is {dtype_name(target.dtype)}, {failed.name} needs {wanted}",
        trail=trail,
        why=f"{failed.name} computes with its target as a number, and torch does not convert {dtype_name(target.dtype)} for it.",
        fix=f"Make the targets {wanted} where they are made.",
        patch=cast_patch(trail, prediction.dtype),
        operands=(Operand("target", describe(target)), Operand("prediction", describe(prediction))),
        counterfactual=f"the same loss with the target as {wanted} runs" if cured else None,
    )
