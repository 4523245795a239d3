"""Any other shape error.

What happened
    A call was refused because of the shapes of its operands.
Why it matters
    What helps is each operand's shape, what changed since the last time the call went well, and where that came from.
How it is detected
    The call fails in the same way on tensors without data, all of one type: so the shapes alone are the fault. If it went
    well before, the operand whose shape changed is followed back.
How to fix it
    Mend the shape where it departed.
When it stays silent
    If the call runs on tensors of these shapes: then the fault is in types or values.
Cost
    None until a call raises.
"""

from __future__ import annotations

import torch

from whence.finding import Confidence, Finding, Operand
from whence.lineage.properties import HasAxis
from whence.lineage.trail import Birth, Trail, trace
from whence.rules.operations import STRICT, weight_of
from whence.rules.rule import Rank, rule
from whence.rules.shape.layers import table
from whence.rules.telling import describe, shape_text, tell
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value
from whence.tape.trial import CannotTry, try_shapes

NOT_ABOUT_SHAPES = frozenset(
    {"backward", "item", "numpy", "tolist", "__bool__", "__float__", "__int__", "step", "grad"}
)


@rule("shape/mismatch", Rank.GENERAL)
def mismatch(failed: FailedCall) -> Finding | None:
    call = failed.call
    if (
        not call.operands
        or not callable(failed.func)
        or isinstance(failed.func, torch.nn.Module)
        or call.name in NOT_ABOUT_SHAPES
    ):
        return None
    strict = call.name in STRICT
    floats = {
        each: torch.float32
        for each in call.operands
        if each.dtype.is_floating_point or (strict and each.dtype != torch.bool)
    }
    outcome = try_shapes(call, dtypes=floats)
    if (
        outcome.ran
        or isinstance(outcome.exception, CannotTry | NotImplementedError | TypeError)
        or not _same_kind(failed, outcome.exception)
    ):
        return None
    changed = _changed(failed)
    trail = _trail(failed, changed)
    shapes = " and ".join(shape_text(each.shape) for each in call.operands)
    return tell(
        failed,
        "shape/mismatch",
        verdict=f"{call.name} cannot take {shapes}"
        if len(call.operands) < 4
        else f"{call.name} cannot take these {len(call.operands)} shapes",
        trail=trail,
        why=_why(changed, call),
        fix="Mend the shape at the origin; the table shows what each line made of it."
        if trail
        else "Make the operands fit: look which axis is meant to meet which.",
        confidence=Confidence.PROVEN,
        operands=tuple(Operand(f"operand {number}", describe(each)) for number, each in enumerate(failed.tensors())),
        table=table(failed),
        counterfactual="the same call on tensors without data, of these shapes and one type, fails as well",
    )


def _same_kind(failed: FailedCall, exception: Exception | None) -> bool:
    return exception is not None and isinstance(exception, RuntimeError | ValueError | IndexError) == isinstance(
        failed.exception, RuntimeError | ValueError | IndexError
    )


def _changed(failed: FailedCall) -> tuple[Value, int, Call] | None:
    """The operand and axis that differ from the last time this call went well, and did not differ in the others too."""
    earlier = failed.tape.earlier_at(failed.call)
    if earlier is None or len(earlier.operands) != len(failed.call.operands):
        return None
    for before, now in zip(earlier.operands, failed.call.operands, strict=True):
        if len(before.shape) != len(now.shape):
            return now, -1, earlier
        for axis in range(-len(now.shape), 0):
            if before.shape[axis] != now.shape[axis]:
                return now, axis, earlier
    return None


def _trail(failed: FailedCall, changed: tuple[Value, int, Call] | None) -> Trail | None:
    if changed is not None:
        value, axis, _ = changed
        return trace(value, HasAxis(axis, value.shape[axis]), failed) if value.shape else None
    weight = weight_of(failed)
    values = (
        [failed.value(weight)] if weight is not None else [each for each in failed.call.operands if each.requires_grad]
    )
    for value in values:
        if not value.shape:
            continue
        trail = trace(value, HasAxis(-1, value.shape[-1]), failed)
        if trail.birth is Birth.LAYER and trail.module is not None and _is_bare(trail):
            return trail
    return None


def _is_bare(trail: Trail) -> bool:
    """True for a parameter that a module of the program's keeps itself, rather than one inside a layer of torch's."""
    return trail.spot is not None and trail.op is None


def _why(changed: tuple[Value, int, Call] | None, call: Call) -> str:
    if changed is None:
        return f"The shapes alone are the fault: {call.name} refuses them whatever the numbers are."
    value, _, earlier = changed
    before = next(old.shape for old, new in zip(earlier.operands, call.operands, strict=True) if new is value)
    return f"The last time this line went well (step {earlier.step}) the operand was {shape_text(before)}; now it is {shape_text(value.shape)}."
