"""A skip or upsampling path is off by one.

What happened
    Two tensors computed from the same input differ in size where they are joined: an odd size was
    halved and doubled, or one path changes size or channels and the other does not.
Why it matters
    The join raises; the row was lost earlier, at a pooling layer or a strided convolution.
How it is detected
    The operands of the join have a common source on the tape. On the longer path, Whence finds the
    first call whose input size does not divide by its stride. For square images, it tries without
    data which nearby sizes would fit.
How to fix it
    Pad the input to a multiple of 2**depth, or interpolate to the size of the skip connection.
When it stays silent
    Tensors that were not computed from the same data.
Cost
    None until a call raises.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors, have_common_source
from whence.lineage.properties import HasAxis
from whence.lineage.trail import trace
from whence.lineage.written import written_size
from whence.rules.operations import ELEMENTWISE
from whence.rules.rule import rule
from whence.rules.shape.layers import table
from whence.rules.shape.resolution import fitting_images, image_input
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.spots import Spot
from whence.source.text import statement_of
from whence.tape.failed import FailedCall
from whence.tape.tape import Call

JOINS = ELEMENTWISE | {"cat", "concat", "concatenate", "stack"}


@rule("shape/skip-connection")
def skip_connection(failed: FailedCall) -> Finding | None:
    tensors = list(failed.tensors())
    if failed.name not in JOINS or len(tensors) != 2 or failed.scope is None:
        return None
    one, other = tensors
    if one.dim() != other.dim() or one.dim() < 3 or one.shape[0] != other.shape[0]:
        return None
    joined = _joined_axis(failed, one.dim())
    axes = [at for at in range(1, one.dim()) if one.shape[at] != other.shape[at] and at != joined]
    if not axes or not have_common_source(failed.value(one), failed.value(other)):
        return None
    floored = _floored(failed, axes[-1] - one.dim())
    spot = Spot.of_site(floored.site) if floored is not None and floored.site is not None else None
    sizes = _sizes(failed, one, other, axes) if floored is not None else None
    return failure_finding(
        failed,
        "shape/skip-connection",
        verdict=f"the two paths into {failed.name} differ in size: {shape_text(one.shape)} and "
        f"{shape_text(other.shape)}",
        spot=spot,
        why=_why(one, other, axes, floored),
        fix=_fix(floored, sizes),
        chain=(sizes.written.hop(f"the image size, {sizes.had} px, is set here"),)
        if sizes and sizes.written
        else (),
        operands=(Operand("one path", describe(one)), Operand("other path", describe(other))),
        table=table(failed),
    )


def _joined_axis(failed: FailedCall, dims: int) -> int | None:
    if failed.name not in ("cat", "concat", "concatenate"):
        return None
    axis = failed.argument(1, "dim")
    return (axis if axis >= 0 else axis + dims) if isinstance(axis, int) else 0


def _floored(failed: FailedCall, axis: int) -> Call | None:
    """The earliest call that halved an odd size."""
    found: Call | None = None
    for call in ancestors(*failed.call.operands):
        if not call.outputs or not call.operands or call.phase != "forward":
            continue
        before, after = call.operands[0].shape, call.outputs[0].shape
        if (
            len(before) == len(after)
            and len(before) >= -axis
            and after[axis]
            and before[axis] // after[axis] >= 2
        ):
            stride = before[axis] // after[axis]
            if before[axis] % stride:
                found = call
    return found


def _why(one: torch.Tensor, other: torch.Tensor, axes: list[int], floored: Call | None) -> str:
    sizes = " and ".join(f"{one.shape[at]} and {other.shape[at]} on axis {at}" for at in axes)
    if floored is None:
        return f"Both paths start at the same input, but only one changed size: {sizes}."
    before, after = floored.operands[0].shape, floored.outputs[0].shape
    return (
        f"The sizes are {sizes}. {floored.name} turned {shape_text(before)} into "
        f"{shape_text(after)}: the size does not divide evenly, so the remainder was dropped, and "
        "upsampling does not restore it."
    )


@dataclass(frozen=True, slots=True)
class Sizes:
    """The image size of this run, where it is set, and nearby sizes that fit."""

    had: int
    fitting: list[int]
    written: Spot | None


def _sizes(
    failed: FailedCall, one: torch.Tensor, other: torch.Tensor, axes: list[int]
) -> Sizes | None:
    values = failed.value(one), failed.value(other)
    calls = [call for call in ancestors(*values) if call.phase == "forward"][::-1]
    image = image_input(calls)
    if image is None:
        return None
    had = image.shape[-1]
    trail = trace(image, HasAxis(-1, had), failed)
    written = written_size(trail.spot, had) or trail.spot if trail.spot is not None else None
    return Sizes(
        had,
        fitting_images(calls, *values, image, axes),
        _line(written) if written is not None else None,
    )


def _line(spot: Spot) -> Spot:
    """The statement around a literal, which shows more than the literal alone."""
    node = spot.node()
    statement = statement_of(node) if node is not None else None
    return Spot.of_node(spot.filename, statement) if statement is not None else spot


def _fix(floored: Call | None, sizes: Sizes | None) -> str:
    if floored is None:
        return (
            "Change size and channels on the shortcut as on the main path (a 1x1 convolution with "
            "the same stride), or keep them on both."
        )
    fitting = " or ".join(map(str, sizes.fitting)) if sizes is not None else ""
    return (
        "Pad the input to a multiple of 2**depth so that each halving is exact, or interpolate to "
        "the size of the skip connection before joining."
        + (
            f" Images of {fitting} px fit instead of {sizes.had} px."
            if sizes is not None and fitting
            else ""
        )
    )
