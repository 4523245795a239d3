"""Plain Python numbers among the operands: a temperature of 0, a loss weight that is NaN.

They have no history on the tape, so they are traced through the source.
"""

from __future__ import annotations

import ast

import torch

from whence.finding import Hop
from whence.lineage.following.trace import SourceTrace
from whence.lineage.grounds import Ground, ground_of, look_at
from whence.lineage.looking import Unknown
from whence.lineage.properties import IsNumber, NotFinite
from whence.rules.nonfinite.reasons import bad_number
from whence.rules.nonfinite.remedies import nonzero_divisor
from whence.source.spots import Spot
from whence.tape.tape import Call
from whence.tape.trip import Trip


def zero_origin(trip: Trip, call: Call) -> tuple[Hop, ...]:
    """The line that computes the number that a tensor is divided by, if that number is 0."""
    divisor, spot = _zero_divisor(call), _formula_of(trip, call)
    if divisor is None or spot is None or call.site is None:
        return ()
    here, made = Spot.of_site(call.site), spot.node()
    if (spot.filename, spot.line) == (here.filename, here.line):
        return ()
    is_other = isinstance(made, ast.Constant) and made.value != 0
    return (spot.hop(f"`{ast.unparse(divisor)}` becomes 0 here"),) if not is_other else ()


def fix_of_zero(trip: Trip, call: Call) -> str | None:
    """Advice for a plain number that is 0 and divides: tensor methods do not apply."""
    divisor, spot = _zero_divisor(call), _formula_of(trip, call)
    if divisor is None:
        return None
    formula = spot.node() if spot is not None else divisor
    match formula:
        case ast.BinOp(
            left=ast.Constant(value=1),
            op=ast.Sub(),
            right=ast.BinOp(left=base, op=ast.Pow(), right=power) as powered,
        ):
            return (
                f"Increment `{ast.unparse(power)}` before this line, so that it starts at 1: "
                f"`{ast.unparse(powered)}` is 1 here, so `{ast.unparse(power)}` is 0 (or "
                f"`{ast.unparse(base)}` is 1)."
            )
    return (
        f"Keep `{ast.unparse(divisor)}` from becoming 0 where it is computed: it is a Python "
        "number, and it is 0 in this step."
    )


def count_at_least_one(call: Call) -> str | None:
    """A diff for a division by a count that is 0."""
    is_count = _zero_divisor(call) is not None and type(call.args[1]) is int
    return (
        nonzero_divisor(Spot.of_site(call.site), counts=True)
        if is_count and call.site is not None
        else None
    )


def _zero_divisor(call: Call) -> ast.expr | None:
    """The expression of a plain number that a tensor is divided by, if it is 0 but no literal."""
    node = call.site.node() if call.site is not None else None
    number = call.args[1] if len(call.args) > 1 else None
    if (
        not isinstance(node, ast.BinOp)
        or not isinstance(node.op, ast.Div)
        or type(number) not in (int, float)
    ):
        return None
    return node.right if number == 0 and not isinstance(node.right, ast.Constant) else None


def _formula_of(trip: Trip, call: Call) -> Spot | None:
    divisor = _zero_divisor(call)
    if divisor is None:
        return None
    return (
        SourceTrace(IsNumber(call.args[1]), trip.frames)
        .follow(divisor, ground_of(call.stack, trip.frames))
        .spot
    )


def nonfinite_origin(trip: Trip, call: Call) -> Spot | None:
    """Where a plain number became NaN or Inf."""
    node = call.site.node() if call.site is not None else None
    ground = ground_of(call.stack, trip.frames)
    number = bad_number(call)
    if number is None or ground is None or not isinstance(node, ast.BinOp):
        return None
    sides = [each for each in (node.left, node.right) if not _is_tensor(each, ground, trip)]
    if len(sides) != 1:
        return None
    return (
        SourceTrace(NotFinite(trip.tape, infinite=number == number), trip.frames)
        .follow(sides[0], ground)
        .spot
    )


def _is_tensor(node: ast.expr, ground: Ground, trip: Trip) -> bool:
    try:
        return isinstance(look_at(node, ground, trip.frames), torch.Tensor)
    except Unknown:
        return False
