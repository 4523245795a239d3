"""A size that the program asserts, traced to the line that made the tensor.

Reported by shape/mismatch, which documents it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from types import FrameType

import torch

from whence.finding import Finding, Operand
from whence.lineage.looking import Unknown, look
from whence.lineage.properties import GotAxis
from whence.lineage.trail import trace
from whence.rules.shape.layers import table
from whence.rules.shape.linear_features import flatten_patch
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.spots import Spot
from whence.source.text import statement_at, text_of
from whence.tape.failed import FailedCall


@dataclass(frozen=True, slots=True)
class Claim:
    """`x.size(axis) == wanted`, which is false."""

    tensor: torch.Tensor
    text: str
    axis: int
    wanted: int

    @property
    def got(self) -> int:
        return self.tensor.shape[self.axis]


def asserted_size(failed: FailedCall) -> Finding | None:
    frame = (
        failed.frames[0] if failed.frames and isinstance(failed.exception, AssertionError) else None
    )
    statement = (
        statement_at(frame.f_code.co_filename, frame.f_lineno) if frame is not None else None
    )
    if frame is None or not isinstance(statement, ast.Assert):
        return None
    claim = next(_broken_claims(statement.test, frame), None)
    if claim is None:
        return None
    shape = claim.tensor.shape
    start = _flattened_from(claim)
    spot = _model_call(failed) if start is not None else None
    return failure_finding(
        failed,
        "shape/mismatch",
        spot=spot,
        patch=flatten_patch(spot, start) if start is not None else None,
        verdict=f"{claim.text} should have size {claim.wanted} on axis {claim.axis}, "
        f"got {shape_text(shape)}",
        trail=trace(
            failed.value(claim.tensor), GotAxis(claim.axis - len(shape), claim.got), failed
        ),
        why="The program asserts this size; the code after the assertion relies on it."
        if start is None
        else f"{' * '.join(map(str, shape[start:]))} = {claim.wanted}: the input has the expected "
        f"number of values, spread over {len(shape) - start} axes instead of one.",
        fix="Fix the size at the origin, or the assertion if the size is right."
        if start is None
        else f"Flatten the tensor from axis {start} before the call: x.flatten({start}).",
        operands=(Operand(claim.text, describe(claim.tensor)),),
        table=table(failed),
    )


def _model_call(failed: FailedCall) -> Spot | None:
    """Where the model is called: the innermost line that is in no forward."""
    outside = (each for each in failed.call.stack if each.function != "forward")
    site = next(outside, None)
    return Spot.of_site(site) if site is not None else None


def _flattened_from(claim: Claim) -> int | None:
    """The axis from which flattening gives the asserted size."""
    shape = claim.tensor.shape
    if claim.axis != len(shape) - 1:
        return None
    return next(
        (each for each in range(1, len(shape) - 1) if prod(shape[each:]) == claim.wanted), None
    )


def _broken_claims(test: ast.expr, frame: FrameType) -> Iterator[Claim]:
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    for part in parts:
        match part:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                for measured, other in ((left, right), (right, left)):
                    claim = _claim(measured, other, frame)
                    if claim is not None and claim.got != claim.wanted:
                        yield claim


def _claim(measured: ast.expr, other: ast.expr, frame: FrameType) -> Claim | None:
    match measured:
        case ast.Call(func=ast.Attribute(value=of, attr="size"), args=[axis]):
            pass
        case ast.Subscript(value=ast.Attribute(value=of, attr="shape"), slice=axis):
            pass
        case _:
            return None
    try:
        tensor, place, wanted = look(of, frame), look(axis, frame), look(other, frame)
    except Unknown:
        return None
    if (
        not isinstance(tensor, torch.Tensor)
        or not isinstance(place, int)
        or not isinstance(wanted, int)
    ):
        return None
    if not -tensor.dim() <= place < tensor.dim():
        return None
    return Claim(tensor, text_of(frame.f_code.co_filename, of), place % tensor.dim(), wanted)
