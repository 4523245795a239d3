"""Targets of a dtype that the loss cannot use."""

from __future__ import annotations

from itertools import islice
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.lineage.properties import HasDtype
from whence.lineage.trail import trace
from whence.rules.dtype.operands import cast_patch, dtype_trail, runs_with_cast
from whence.rules.operations import CLASS_LOSSES, SAME_SHAPE_LOSSES, loss_operands
from whence.rules.rule import rule
from whence.rules.telling import describe, dtype_name, failure_finding, shape_text
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
    """Class labels have a float or otherwise wrong dtype.

    What happened
        Cross entropy received class labels that are not int64: floats from a NumPy table, from
        torch.Tensor(...), or another integer dtype.
    Why it matters
        PyTorch then reads them as class probabilities, or its message is about their shape although
        the dtype is the cause.
    How it is detected
        From the target's dtype and shape: one value per sample, where a class index belongs. The
        dtype is traced to where the labels were created.
    How to fix it
        Create the labels as int64. A float label column often contains missing values: check that
        first.
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
    trail = dtype_trail(failed, target)
    cured = runs_with_cast(failed, target, torch.int64)
    return failure_finding(
        failed,
        "dtype/labels",
        verdict=f"class labels are {dtype_name(target.dtype)}, {failed.name} needs int64",
        trail=trail,
        why=f"A label is a class index, so {failed.name} expects {shape_text(target.shape)} int64 "
        "here. A float target holds class probabilities and needs the shape "
        f"{shape_text(prediction.shape)}.",
        fix="Create the labels as int64. If missing values made them float, fix those first.",
        patch=cast_patch(trail, torch.int64),
        operands=(Operand("target", describe(target)), Operand("prediction", describe(prediction))),
        counterfactual="the same loss with the labels as int64 runs" if cured else None,
    )


@rule("dtype/integer-target")
def integer_target(failed: FailedCall) -> Finding | None:
    """An integer target reached a loss that needs floats.

    What happened
        A loss that subtracts or multiplies (BCE, BCE with logits, MSE, ...) received integer
        targets.
    Why it matters
        The message names a result type; the cause is the target's dtype.
    How it is detected
        The target's dtype in the loss that raised is traced to where the targets were created. If
        backward raises: the loss on the tape whose own backward fails with integers and runs with
        floats.
    How to fix it
        Create the targets as floats.
    When it stays silent
        Classification losses, which expect integers, and losses that convert by themselves.
    Cost
        None until a call raises.
    """
    if failed.name in BACKWARDS:
        return _failed_backward(failed)
    operands = loss_operands(failed)
    if operands is None or failed.name not in SAME_SHAPE_LOSSES:
        return None
    prediction, target = operands
    if target.is_floating_point() or not prediction.is_floating_point():
        return None
    cured = runs_with_cast(failed, target, prediction.dtype)
    if (
        not cured
        and target.shape != prediction.shape
        and failed.name not in ("binary_cross_entropy", "binary_cross_entropy_with_logits")
    ):
        return None
    trail = dtype_trail(failed, target)
    wanted = dtype_name(prediction.dtype)
    return failure_finding(
        failed,
        "dtype/integer-target",
        verdict=f"the target is {dtype_name(target.dtype)}, {failed.name} needs {wanted}",
        trail=trail,
        why=f"{failed.name} computes with the target's values, and PyTorch does not convert "
        f"{dtype_name(target.dtype)} for it.",
        fix=f"Create the targets as {wanted}.",
        patch=cast_patch(trail, prediction.dtype),
        operands=(Operand("target", describe(target)), Operand("prediction", describe(prediction))),
        counterfactual=f"the same loss with the target as {wanted} runs" if cured else None,
    )


def _failed_backward(failed: FailedCall) -> Finding | None:
    """Some losses accept integers in forward, and only their backward raises."""
    found = next(
        filter(None, map(_refusing, islice(ancestors(*failed.call.operands[:1]), NEAREST))), None
    )
    if found is None:
        return None
    call, target, wanted = found
    trail = trace(target, HasDtype(target.dtype), failed)
    return failure_finding(
        failed,
        "dtype/integer-target",
        verdict=f"the target is {dtype_name(target.dtype)}, the backward of {call.name} needs "
        f"{dtype_name(wanted)}",
        trail=trail,
        why=f"The forward of {call.name} accepts {dtype_name(target.dtype)}; its backward does "
        "not.",
        fix=f"Create the targets as {dtype_name(wanted)}.",
        patch=cast_patch(trail, wanted),
        operands=(Operand("target", f"{shape_text(target.shape)} {dtype_name(target.dtype)}"),),
        counterfactual=f"{call.name} alone, forward and backward: fails with "
        f"{dtype_name(target.dtype)}, runs with {dtype_name(wanted)}",
    )


def _refusing(call: Call) -> tuple[Call, Value, torch.dtype] | None:
    """A call whose backward fails with an integer operand, and the dtype it accepts, by trial."""
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
    if _differentiates(call, whole[0].dtype, whole[0]) or not _differentiates(
        call, real[0].dtype, whole[0]
    ):
        return None
    return call, whole[0], real[0].dtype


def _differentiates(call: Call, dtype: torch.dtype, of: Value) -> bool:
    """Whether a call runs forward and backward on ones, with this dtype for one operand."""

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
