"""An annotation of a shape or a type (jaxtyping's) that a checker found broken, led back to where the tensor got it.

It is told by the general rules of shapes and types, whose documentation speaks of it.
"""

from __future__ import annotations

from whence.finding import Finding, Operand
from whence.lineage.annotations import Broken, broken_annotation
from whence.lineage.properties import GotAxis, HasRank, HasShape, Property
from whence.lineage.trail import trace
from whence.rules.dtype.operands import birth, cast_patch
from whence.rules.shape.layers import table
from whence.rules.telling import describe, dtype_name, shape_text, tell
from whence.tape.failed import FailedCall


def broken_shape(failed: FailedCall) -> Finding | None:
    found = broken_annotation(failed.exception)
    if found is None or found.dtype is not None:
        return None
    tensor = found.place.value
    return tell(
        failed,
        "shape/mismatch",
        verdict=_verdict(found, f"got {shape_text(tensor.shape)}"),
        trail=trace(failed.value(tensor), _wrong(found), failed),
        why=_why(found),
        fix="Mend the shape at the origin; or the annotation, if that is what is wrong.",
        operands=_operands(found),
        table=table(failed),
        counterfactual=f"with {found.wanted} on axis {found.axis} the annotations hold"
        if found.wanted
        else None,
    )


def broken_dtype(failed: FailedCall) -> Finding | None:
    found = broken_annotation(failed.exception)
    if found is None or found.dtype is None:
        return None
    tensor = found.place.value
    trail = birth(failed, tensor)
    return tell(
        failed,
        "dtype/mismatch",
        verdict=_verdict(found, f"got {dtype_name(tensor.dtype)}"),
        trail=trail,
        why="Its shape is right, its type is not.",
        fix=f"Make it {dtype_name(found.dtype)} where it is made; or mend the annotation, if that is what is wrong.",
        patch=cast_patch(trail, found.dtype),
        operands=_operands(found),
        counterfactual=f"with the type {dtype_name(found.dtype)} the annotations hold",
    )


def _verdict(found: Broken, got: str) -> str:
    return f"{found.function}: {found.place.label} is to be {found.place.text()} and {got}"


def _wrong(found: Broken) -> Property:
    shape = found.place.value.shape
    if found.axis is not None:
        return GotAxis(found.axis - len(shape), shape[found.axis])
    return HasRank(len(shape)) if found.rank is not None else HasShape(tuple(shape))


def _why(found: Broken) -> str:
    shape = found.place.value.shape
    if found.rank is not None:
        return f"It has {len(shape)} axes where the annotation has {found.rank}."
    if found.axis is None:
        return "Its sizes are not those that the annotation names."
    words = str(found.place.annotation.dim_str).split()
    named = f" ({words[found.axis]})" if len(words) == len(shape) else ""
    return f"Axis {found.axis}{named} is {shape[found.axis]}, and would have to be {found.wanted}."


def _operands(found: Broken) -> tuple[Operand, ...]:
    return tuple(
        Operand(each.label, f"{describe(each.value)}  for {each.text()}")
        for each in (*found.before, found.place)
    )
