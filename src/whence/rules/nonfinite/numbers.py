"""Plain numbers that a call was given: a temperature that has come down to 0, a weight of a loss that is NaN.

They have no past on the tape; the source has one.
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
from whence.rules.nonfinite.remedies import kept_off_zero
from whence.source.spots import Spot
from whence.tape.tape import Call
from whence.tape.trip import Trip


def made_zero(trip: Trip, call: Call) -> tuple[Hop, ...]:
    """The line that gave the number that a tensor is divided by, if it is 0, and that line another one."""
    divisor, spot = _zero_divisor(call), _formula_of(trip, call)
    if divisor is None or spot is None or call.site is None:
        return ()
    here, made = Spot.of_site(call.site), spot.node()
    if (spot.filename, spot.line) == (here.filename, here.line):
        return ()
    is_other = isinstance(made, ast.Constant) and made.value != 0
    return (spot.hop(f"gives the 0 that {ast.unparse(divisor)} is"),) if not is_other else ()


def fix_of_zero(trip: Trip, call: Call) -> str | None:
    """What to do about a plain number that is 0 and divides: no tensor's method helps there."""
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
                f"`{ast.unparse(powered)}` is 1 there, so `{ast.unparse(power)}` is 0 (or `{ast.unparse(base)}` is 1): count the step "
                "before this line, so that it begins at 1."
            )
    return f"`{ast.unparse(divisor)}` is a plain number of the program's, and 0 in this step: keep it from 0 where it is computed."


def counted_from_one(call: Call) -> str | None:
    """A diff for a tensor that is divided by how many there were, and there was none."""
    is_count = _zero_divisor(call) is not None and type(call.args[1]) is int
    return (
        kept_off_zero(Spot.of_site(call.site), counts=True)
        if is_count and call.site is not None
        else None
    )


def _zero_divisor(call: Call) -> ast.expr | None:
    """The expression of a plain number that a tensor is divided by, if it is 0 and not written there."""
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


def made_not_finite(trip: Trip, call: Call) -> Spot | None:
    """Where a number was made that is NaN or Inf when it is computed with."""
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
