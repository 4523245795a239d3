"""A violated shape or dtype annotation (jaxtyping), traced to the line that made the tensor.

Reported by shape/mismatch and dtype/mismatch, which document it.
"""

from __future__ import annotations

from whence.finding import Finding, Operand
from whence.lineage.annotations import Broken, broken_annotation
from whence.lineage.properties import GotAxis, HasRank, HasShape, Property
from whence.lineage.trail import trace
from whence.rules.dtype.operands import cast_patch, dtype_trail
from whence.rules.shape.layers import table
from whence.rules.telling import describe, dtype_name, failure_finding, shape_text
from whence.tape.failed import FailedCall


def broken_shape(failed: FailedCall) -> Finding | None:
    found = broken_annotation(failed.exception)
    if found is None or found.dtype is not None:
        return None
    tensor = found.place.value
    return failure_finding(
        failed,
        "shape/mismatch",
        verdict=_verdict(found, f"got {shape_text(tensor.shape)}"),
        trail=trace(failed.value(tensor), _wrong(found), failed),
        why=_why(found),
        fix="Fix the shape at the origin, or the annotation if the shape is right.",
        operands=_operands(found),
        table=table(failed),
        counterfactual=f"with {found.wanted} on axis {found.axis} every annotation holds"
        if found.wanted
        else None,
    )


def broken_dtype(failed: FailedCall) -> Finding | None:
    found = broken_annotation(failed.exception)
    if found is None or found.dtype is None:
        return None
    tensor = found.place.value
    trail = dtype_trail(failed, tensor)
    return failure_finding(
        failed,
        "dtype/mismatch",
        verdict=_verdict(found, f"got {dtype_name(tensor.dtype)}"),
        trail=trail,
        why="The shape matches the annotation; the dtype does not.",
        fix=f"Convert the tensor to {dtype_name(found.dtype)} where it is created, or fix the "
        "annotation if the dtype is right.",
        patch=cast_patch(trail, found.dtype),
        operands=_operands(found),
        counterfactual=f"with dtype {dtype_name(found.dtype)} every annotation holds",
    )


def _verdict(found: Broken, got: str) -> str:
    return f"{found.function}: {found.place.label} should be {found.place.text()}, {got}"


def _wrong(found: Broken) -> Property:
    shape = found.place.value.shape
    if found.axis is not None:
        return GotAxis(found.axis - len(shape), shape[found.axis])
    return HasRank(len(shape)) if found.rank is not None else HasShape(tuple(shape))


def _why(found: Broken) -> str:
    shape = found.place.value.shape
    if found.rank is not None:
        return f"The tensor has {len(shape)} axes, the annotation has {found.rank}."
    if found.axis is None:
        return f"The shape {shape_text(shape)} does not satisfy the annotation."
    words = str(found.place.annotation.dim_str).split()
    named = f" ({words[found.axis]})" if len(words) == len(shape) else ""
    return f"Axis {found.axis}{named} has size {shape[found.axis]}, expected {found.wanted}."


def _operands(found: Broken) -> tuple[Operand, ...]:
    return tuple(
        Operand(each.label, f"{describe(each.value)}  for {each.text()}")
        for each in (*found.before, found.place)
    )
