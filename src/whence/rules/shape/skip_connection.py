"""A skip or upsample path is off by one.

What happened
    Two tensors that were computed from the same input no longer have the same size where they are joined: an odd size was
    halved and doubled, or one path changes size or channels and the other does not.
Why it matters
    The join raises; the row was lost at the pooling layer.
How it is detected
    The operands of the join have a common source on the tape. On the longer path the first call is sought whose input
    size did not divide by its stride. Square pictures: which sizes near theirs would have fitted is tried without data.
How to fix it
    Pad the input to a multiple of 2**depth, or interpolate to the skip's size.
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
from whence.rules.shape.resolution import fitting_pictures, picture_of
from whence.rules.telling import describe, shape_text, tell
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
    return tell(
        failed,
        "shape/skip-connection",
        verdict=f"the two paths into {failed.name} differ: {shape_text(one.shape)} and {shape_text(other.shape)}",
        spot=spot,
        why=_why(one, other, axes, floored),
        fix=_fix(floored, sizes),
        chain=(sizes.written.hop(f"the size of the pictures, {sizes.had}"),)
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
    """The earliest call on the way that halved an odd size."""
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
    sizes = " and ".join(f"{one.shape[at]} against {other.shape[at]} at axis {at}" for at in axes)
    if floored is None:
        return f"Both come from the same input; on the way one of them changed size: {sizes}."
    before, after = floored.operands[0].shape, floored.outputs[0].shape
    return f"{sizes[:1].upper()}{sizes[1:]}. {floored.name} made {shape_text(after)} of {shape_text(before)}: an odd size cannot be halved, so a row was dropped, and doubling does not bring it back."


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of the pictures that came, where it is written, and those near it that would have fitted."""

    had: int
    fitting: list[int]
    written: Spot | None


def _sizes(
    failed: FailedCall, one: torch.Tensor, other: torch.Tensor, axes: list[int]
) -> Sizes | None:
    values = failed.value(one), failed.value(other)
    calls = [call for call in ancestors(*values) if call.phase == "forward"][::-1]
    picture = picture_of(calls)
    if picture is None:
        return None
    had = picture.shape[-1]
    trail = trace(picture, HasAxis(-1, had), failed)
    written = written_size(trail.spot, had) or trail.spot if trail.spot is not None else None
    return Sizes(
        had,
        fitting_pictures(calls, *values, picture, axes),
        _line(written) if written is not None else None,
    )


def _line(spot: Spot) -> Spot:
    """The statement around a number, which says more than the number alone."""
    node = spot.node()
    statement = statement_of(node) if node is not None else None
    return Spot.of_node(spot.filename, statement) if statement is not None else spot


def _fix(floored: Call | None, sizes: Sizes | None) -> str:
    if floored is None:
        return "Let the shortcut change size and channels as the main path does (a 1x1 convolution with the same stride), or keep both."
    fitting = " or ".join(map(str, sizes.fitting)) if sizes is not None else ""
    return (
        "Pad the input so that every pooling halves an even size (a multiple of 2**depth), or interpolate to the skip's size before joining."
        + (
            f" Pictures of {fitting} px would fit in place of {sizes.had}."
            if sizes is not None and fitting
            else ""
        )
    )
