"""Type promotion silently widened or changed the dtype of a result.

What happened
    Two tensors of different dtypes met in arithmetic, and PyTorch converted one: integers became
    floats, or float32 became float64.
Why it matters
    It works, but a wider result costs time and memory, and the place where a dtype changed is
    hidden.
How it is detected
    The dtypes of operands and result of each call that the program itself makes while calls are
    recorded.
How to fix it
    No change is required; an explicit .to(...) documents the intent.
When it stays silent
    Python numbers, bool masks, 0-dimensional tensors, calls inside libraries or under autocast,
    which mixes dtypes on purpose, and int64, the default dtype of positions and labels. The finding
    is always of severity info.
Cost
    One comparison per recorded call.
"""

from __future__ import annotations

import torch

from whence.finding import Finding, Severity
from whence.rules.operations import ELEMENTWISE
from whence.rules.rule import call_rule
from whence.rules.source_operands import is_written
from whence.rules.telling import call_finding, dtype_name
from whence.tape.tape import Call


@call_rule("dtype/promoted")
def promoted(call: Call) -> Finding | None:
    if (
        call.name not in ELEMENTWISE
        or len(call.operands) != 2
        or not call.outputs
        or call.phase not in ("program", "forward")
    ):
        return None
    one, other = call.operands
    result = call.outputs[0]
    if (
        one.dtype == other.dtype
        or call.autocast
        or torch.bool in (one.dtype, other.dtype, result.dtype)
        or not one.shape
        or not other.shape
        or not is_written(call)
    ):
        return None
    changed = one if one.dtype != result.dtype else other
    if changed.dtype is torch.int64 and result.dtype.is_floating_point:
        return None
    verdict = (
        f"{call.name} of {dtype_name(one.dtype)} and {dtype_name(other.dtype)} returns "
        f"{dtype_name(result.dtype)}"
    )
    return call_finding(
        call,
        "dtype/promoted",
        severity=Severity.INFO,
        verdict=verdict,
        why=f"Type promotion converted {dtype_name(changed.dtype)} to {dtype_name(result.dtype)}.",
        fix=f"Add .to(torch.{dtype_name(result.dtype)}) at the origin to make the intent explicit; "
        "no change is required.",
        what=verdict,
    )
