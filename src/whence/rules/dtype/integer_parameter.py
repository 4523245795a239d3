"""A trainable parameter has an integer dtype.

What happened
    An integer tensor was asked to require gradients: requires_grad=True, nn.Parameter(...),
    requires_grad_().
Why it matters
    Gradients are real numbers; a small update cannot change an integer.
How it is detected
    The dtype of the tensor in the call that raised; the origin is where it was created.
How to fix it
    Create it as a float tensor.
When it stays silent
    Integer buffers, and nn.Parameter(..., requires_grad=False).
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast
from typing import Any

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.rules.dtype.operands import cast_patch, dtype_trail
from whence.rules.rule import rule
from whence.rules.telling import describe, dtype_name, failure_finding
from whence.source.edits import diff_of, give_by_name
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.trial import try_values
from whence.torch_internals import make_subclass


@rule("dtype/integer-parameter")
def integer_parameter(failed: FailedCall) -> Finding | None:
    tensor = _integers_to_train(failed)
    if tensor is None:
        return None
    created = failed.kwargs.get("requires_grad") is True and failed.name not in (
        "requires_grad_",
        "Parameter",
    )
    trail = None if created else dtype_trail(failed, tensor)
    spot = (
        Spot.of_site(failed.site)
        if created and failed.site is not None
        else trail.spot
        if trail is not None
        else None
    )
    return failure_finding(
        failed,
        "dtype/integer-parameter",
        verdict=f"a trainable tensor needs a floating dtype, got {dtype_name(tensor.dtype)}",
        trail=trail,
        spot=spot if created else None,
        why="Only floating-point and complex tensors can have gradients.",
        fix="Create the tensor as float32.",
        patch=_creation_patch(spot)
        if created
        else cast_patch(trail, torch.float32)
        if trail is not None
        else None,
        operands=(Operand("tensor", describe(tensor)),),
        counterfactual="the same call with float32 runs" if _runs_as_float(failed) else None,
    )


def _integers_to_train(failed: FailedCall) -> torch.Tensor | None:
    """The integer tensor that the failed call would have created or marked as trainable."""
    asks = failed.kwargs.get("requires_grad") is True or failed.name in (
        "requires_grad_",
        "requires_grad.__set__",
    )
    if (
        failed.func is make_subclass
        or failed.name in ("_make_subclass", "Parameter")
        or failed.func is nn.Parameter
    ):
        asks = True
    if not asks:
        return None
    given = next(failed.tensors(), None)
    if given is None:
        given = _made_without_gradient(failed)
    if given is None or given.is_floating_point() or given.is_complex():
        return None
    return given


def _made_without_gradient(failed: FailedCall) -> torch.Tensor | None:
    without: dict[str, Any] = {**failed.kwargs, "requires_grad": False}
    if not callable(failed.func):
        return None
    outcome = try_values(failed.func, failed.args, without)
    return outcome.result if isinstance(outcome.result, torch.Tensor) else None


def _runs_as_float(failed: FailedCall) -> bool:
    if "requires_grad" not in failed.kwargs:
        return True
    as_float: dict[str, Any] = {**failed.kwargs, "dtype": torch.float32}
    return callable(failed.func) and try_values(failed.func, failed.args, as_float).ran


def _creation_patch(spot: Spot | None) -> str | None:
    """Add `dtype=torch.float32` to the creating call; a later cast would not return a leaf."""
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call):
        return None
    return diff_of(give_by_name(spot.filename, node, "dtype", "torch.float32"))
