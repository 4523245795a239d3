"""Any other type error.

What happened
    A call was refused because of the types of its operands: a float index, an integer tensor changed in place by a float,
    two matrices of different types. Or a checker (beartype, typeguard) found that an argument or a result does not have the type
    that its annotation (jaxtyping's) says.
Why it matters
    The message speaks of scalar types; what helps is which operand, and where its type was made.
How it is detected
    The call is run again on copies with one operand cast at a time. If one cast is enough, that operand's type is the fault.
How to fix it
    Give that operand the right type where it is made.
When it stays silent
    If no single cast helps: then the fault is not the type alone.
Cost
    None until a call raises.
"""

from __future__ import annotations

import torch

from whence.finding import Finding, Operand
from whence.rules.dtype.operands import birth, cast_patch
from whence.rules.rule import Rank, rule
from whence.rules.shape.annotation import broken_dtype
from whence.rules.telling import describe, dtype_name, tell
from whence.tape.failed import FailedCall
from whence.tape.trial import try_values

CANDIDATES = (torch.int64, torch.float32, torch.float64, torch.bool)


@rule("dtype/mismatch", Rank.GENERAL)
def mismatch(failed: FailedCall) -> Finding | None:
    if (told := broken_dtype(failed)) is not None:
        return told
    found = curing_cast(failed)
    if found is None:
        return None
    tensor, wanted = found
    trail = birth(failed, tensor)
    return tell(
        failed,
        "dtype/mismatch",
        verdict=f"{failed.name} got {dtype_name(tensor.dtype)} where {dtype_name(wanted)} is needed",
        trail=trail,
        why=f"{failed.name} does not take {_types(failed)} together.",
        fix=f"Make it {dtype_name(wanted)} where it is made.",
        patch=cast_patch(trail, wanted),
        operands=tuple(
            Operand(f"operand {number}", describe(each))
            for number, each in enumerate(failed.tensors())
        ),
        counterfactual=f"the same call with that operand as {dtype_name(wanted)} runs",
    )


def curing_cast(failed: FailedCall) -> tuple[torch.Tensor, torch.dtype] | None:
    """The operand, and the type, with which the call goes through although nothing else is changed."""
    if not callable(failed.func) or isinstance(failed.func, torch.nn.Module):
        return None
    if try_values(failed.func, failed.args, failed.kwargs, torch.Tensor.contiguous).ran:
        # A cast makes a copy, and a copy is all that is wanted.
        return None
    tensors = list(failed.tensors())
    others = tuple(dict.fromkeys((*(each.dtype for each in tensors), *CANDIDATES)))
    for tensor in sorted(tensors, key=lambda each: each.requires_grad):
        for wanted in others:
            if wanted != tensor.dtype and _runs_with(failed, tensor, wanted):
                return tensor, wanted
    return None


def _runs_with(failed: FailedCall, tensor: torch.Tensor, wanted: torch.dtype) -> bool:
    def mend(each: torch.Tensor) -> torch.Tensor:
        return each.to(wanted) if each is tensor else each

    return try_values(failed.func, failed.args, failed.kwargs, mend).ran


def _types(failed: FailedCall) -> str:
    return " and ".join(dict.fromkeys(dtype_name(each.dtype) for each in failed.tensors()))
