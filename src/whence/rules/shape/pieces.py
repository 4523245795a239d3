"""A reshape that is meant to cut an image into patches but cuts across its rows."""

from __future__ import annotations

from itertools import accumulate, pairwise
from operator import mul

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Study
from whence.rules.operations import RESHAPES
from whence.rules.source_operands import is_written
from whence.rules.telling import shape_text, silent_finding, spot_at
from whence.source.spots import Spot
from whence.tape.operations import NORMS
from whence.tape.tape import Call, Value

Shape = tuple[int, ...]
PASSES = NORMS | {"contiguous", "dropout", "to", "float"}


def pieces_across_rows(study: Study) -> Finding | None:
    """(8, 3, 24, 24) -> (8, 16, 108) for 6 x 6 patches: each piece is 4.5 image rows instead."""
    for loss, call in study.loss_calls():
        if (
            call.name not in RESHAPES
            or call.inner
            or call.site is None
            or not is_written(call)
            or not call.operands
        ):
            continue
        given, made = call.operands[0], call.outputs[0]
        before, after = given.shape, made.shape
        if given.requires_grad or len(before) != 4 or len(after) != 3 or before[0] != after[0]:
            continue
        side = _side(before[1:], after[1:])
        if (
            side is None
            or _are_nested(before[1:], after[1:])
            or not _is_read_as_features(study, made)
        ):
            continue
        return silent_finding(
            study,
            "shape/reshape-as-permute",
            spot=Spot.of_site(call.site),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"{call.name} {shape_text(before)} -> {shape_text(after)} does not make "
            f"{side} x {side} patches",
            what="a linear layer reads each piece as a patch",
            why="A reshape keeps the elements in memory order: channels, then rows. Each piece is "
            f"{after[2] / before[3]:g} consecutive image rows, while a patch takes a part of "
            "several rows from every channel.",
            fix="Split both sides, permute, then merge: "
            f"x.reshape(b, {before[1]}, {before[2] // side}, {side}, {before[3] // side}, {side})"
            f".permute(0, 2, 4, 1, 3, 5).reshape(b, {after[1]}, {after[2]}).",
        )
    return None


def _side(image: Shape, pieces: Shape) -> int | None:
    """The side of a patch, if the pieces have the number and the size of patches."""
    channels, height, width = image
    for side in range(2, min(height, width)):
        fits = height % side == 0 and width % side == 0
        if fits and pieces == (height // side * (width // side), channels * side * side):
            return side
    return None


def _are_nested(before: Shape, after: Shape) -> bool:
    """Whether axes are only split and merged, so that no piece crosses a row or channel."""
    ends = sorted({*accumulate(before, mul), *accumulate(after, mul)})
    return all(large % small == 0 for small, large in pairwise(ends))


def _is_read_as_features(study: Study, value: Value) -> bool:
    reached = {id(value)}
    for call in study.calls:
        if call.inner or not call.operands or id(call.operands[0]) not in reached:
            continue
        if call.name == "linear" or _is_product(call):
            return True
        if call.name in PASSES:
            reached |= {id(each) for each in call.outputs}
    return False


def _is_product(call: Call) -> bool:
    return call.name in ("matmul", "__matmul__") and call.operands[-1].requires_grad
