"""Any other dtype error.

What happened
    A call raised because of the dtypes of its operands: a float index, an integer tensor changed in
    place by a float, two matrices of different dtypes. Or a checker (beartype, typeguard) found
    that an argument or a result violates its dtype annotation (jaxtyping).
Why it matters
    PyTorch's message names scalar types; the finding shows which operand, and where its dtype
    comes from.
How it is detected
    The call is run again on copies with one operand cast at a time. If one cast is enough, that
    operand's dtype is the cause.
How to fix it
    Create that operand with the right dtype.
When it stays silent
    If no single cast helps: then the dtype is not the only cause.
Cost
    None until a call raises.
"""

from __future__ import annotations

import torch

from whence.finding import Finding, Operand
from whence.rules.dtype.operands import cast_patch, dtype_trail
from whence.rules.rule import Rank, rule
from whence.rules.shape.annotation import broken_dtype
from whence.rules.telling import describe, dtype_name, failure_finding
from whence.tape.failed import FailedCall
from whence.tape.trial import try_values

CANDIDATES = (torch.int64, torch.float32, torch.float64, torch.bool)


@rule("dtype/mismatch", Rank.GENERAL)
def mismatch(failed: FailedCall) -> Finding | None:
    if (annotated := broken_dtype(failed)) is not None:
        return annotated
    found = single_cast(failed)
    if found is None:
        return None
    tensor, wanted = found
    trail = dtype_trail(failed, tensor)
    return failure_finding(
        failed,
        "dtype/mismatch",
        verdict=f"{failed.name} needs {dtype_name(wanted)}, got {dtype_name(tensor.dtype)}",
        trail=trail,
        why=f"{failed.name} raised on operands of {_types(failed)}; PyTorch does not convert here.",
        fix=f"Create the {dtype_name(tensor.dtype)} operand as {dtype_name(wanted)} at the origin.",
        patch=cast_patch(trail, wanted),
        operands=tuple(
            Operand(f"operand {number}", describe(each))
            for number, each in enumerate(failed.tensors())
        ),
        counterfactual=f"the same call with that operand as {dtype_name(wanted)} runs",
    )


def single_cast(failed: FailedCall) -> tuple[torch.Tensor, torch.dtype] | None:
    """The operand and the dtype with which the call runs although nothing else is changed."""
    if not callable(failed.func) or isinstance(failed.func, torch.nn.Module):
        return None
    if try_values(failed.func, failed.args, failed.kwargs, torch.Tensor.contiguous).ran:
        # A cast makes a copy, and a contiguous copy alone is enough here.
        return None
    tensors = list(failed.tensors())
    others = tuple(dict.fromkeys((*(each.dtype for each in tensors), *CANDIDATES)))
    for tensor in sorted(tensors, key=lambda each: each.requires_grad):
        for wanted in others:
            if wanted != tensor.dtype and _runs_with(failed, tensor, wanted):
                return tensor, wanted
    return None


def _runs_with(failed: FailedCall, tensor: torch.Tensor, wanted: torch.dtype) -> bool:
    def cast(each: torch.Tensor) -> torch.Tensor:
        return each.to(wanted) if each is tensor else each

    return try_values(failed.func, failed.args, failed.kwargs, cast).ran


def _types(failed: FailedCall) -> str:
    return " and ".join(dict.fromkeys(dtype_name(each.dtype) for each in failed.tensors()))
