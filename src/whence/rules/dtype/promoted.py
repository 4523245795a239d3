"""An operand silently widened or changed the type of a result.

What happened
    Two tensors of different number types met in arithmetic, and torch converted one of them: integers became floats, or
    float32 became float64.
Why it matters
    It works. It costs time and memory where the result became wider, and it hides the place where a type was lost.
How it is detected
    The types of operands and result of each call that the program itself makes while calls are recorded.
How to fix it
    Nothing has to be done; a cast with .to(...) says what is meant.
When it stays silent
    Numbers, masks (bool), tensors without axes, calls made inside libraries or under autocast, which mixes types on purpose; whole numbers
    of torch's own type, int64, which positions and labels have; and it is never more than a note.
Cost
    One comparison a recorded call.
"""

from __future__ import annotations

import torch

from whence.finding import Finding, Severity
from whence.rules.operations import ELEMENTWISE
from whence.rules.rule import call_rule
from whence.rules.source_operands import is_written
from whence.rules.telling import dtype_name, tell_call
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
    verdict = f"{dtype_name(one.dtype)} and {dtype_name(other.dtype)} met in {call.name}: the result is {dtype_name(result.dtype)}"
    return tell_call(
        call,
        "dtype/promoted",
        severity=Severity.INFO,
        verdict=verdict,
        why=f"torch converts the narrower type by itself; here {dtype_name(changed.dtype)} became {dtype_name(result.dtype)}.",
        fix=f"Nothing has to be done; .to(torch.{dtype_name(result.dtype)}) where it is made would say what is meant.",
        what=verdict,
    )
