"""Targets of a type that the loss cannot use."""

from __future__ import annotations

from itertools import islice
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.lineage.properties import HasDtype
from whence.lineage.trail import trace
from whence.rules.dtype.operands import birth, cast_patch, cured_by_cast
from whence.rules.operations import CLASS_LOSSES, SAME_SHAPE_LOSSES, loss_operands
from whence.rules.rule import rule
from whence.rules.telling import describe, dtype_name, shape_text, tell
from whence.tape.failed import FailedCall
from whence.tape.native import run_native
from whence.tape.replay import leaving_no_trace
from whence.tape.slices import BACKWARDS
from whence.tape.tape import Call, Value, map_leaves

CLASS_TYPES = (torch.int64, torch.uint8)
NEAREST = 12
LARGEST = 4_000_000


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
        The target's type in the loss that raised, followed back to where the targets were made. Where backward raises: the loss on the tape
        whose own backward fails with whole numbers, and runs with real ones.
    How to fix it
        Make the targets float where they are made.
    When it stays silent
        Losses over classes, which want integers, and losses that convert by themselves.
    Cost
        None until a call raises.
    """
    if failed.name in BACKWARDS:
        return _refused_by_backward(failed)
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


def _refused_by_backward(failed: FailedCall) -> Finding | None:
    """Some losses take whole numbers forwards, and only their derivative refuses them."""
    found = next(
        filter(None, map(_refusing, islice(ancestors(*failed.call.operands[:1]), NEAREST))), None
    )
    if found is None:
        return None
    call, target, wanted = found
    trail = trace(target, HasDtype(target.dtype), failed)
    return tell(
        failed,
        "dtype/integer-target",
        verdict=f"the target is {dtype_name(target.dtype)}, the backward of {call.name} needs {dtype_name(wanted)}",
        trail=trail,
        why=f"{call.name} takes {dtype_name(target.dtype)} forwards, and its derivative does not.",
        fix=f"Make the targets {dtype_name(wanted)} where they are made.",
        patch=cast_patch(trail, wanted),
        operands=(Operand("target", f"{shape_text(target.shape)} {dtype_name(target.dtype)}"),),
        counterfactual=f"{call.name} alone, forwards and backwards: fails with {dtype_name(target.dtype)}, runs with {dtype_name(wanted)}",
    )


def _refusing(call: Call) -> tuple[Call, Value, torch.dtype] | None:
    """A call whose derivative refuses a whole-number operand, and the type that it takes: found by trying."""
    whole = [
        each
        for each in call.operands
        if not each.dtype.is_floating_point and each.dtype is not torch.bool
    ]
    real = [each for each in call.operands if each.dtype.is_floating_point and each.requires_grad]
    if (
        not whole
        or not real
        or call.has_foreign
        or any(each.numel > LARGEST for each in call.operands)
    ):
        return None
    if _goes_back(call, whole[0].dtype, whole[0]) or not _goes_back(call, real[0].dtype, whole[0]):
        return None
    return call, whole[0], real[0].dtype


def _goes_back(call: Call, dtype: torch.dtype, of: Value) -> bool:
    """Run a call forwards and backwards on ones, with this type for one of its operands."""

    given: list[torch.Tensor] = []

    def stand_in(thing: Any) -> Any:
        if not isinstance(thing, Value):
            return thing
        made = torch.ones(thing.shape, dtype=dtype if thing is of else thing.dtype)
        if thing.requires_grad:
            given.append(made.requires_grad_())
        return made

    with leaving_no_trace():
        try:
            result = run_native(
                call.func, map_leaves(stand_in, call.args), map_leaves(stand_in, call.kwargs)
            )
            torch.autograd.grad(result.sum(), given, allow_unused=True)
        except Exception:
            return False
    return True
