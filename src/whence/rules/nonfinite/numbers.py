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
from whence.source.spots import Spot
from whence.tape.tape import Call
from whence.tape.trip import Trip


def made_zero(trip: Trip, call: Call) -> tuple[Hop, ...]:
    """The line that gave the number that a tensor is divided by, if it is 0, and that line another one."""
    node = call.site.node() if call.site is not None else None
    divisor = call.args[1] if len(call.args) > 1 else None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or type(divisor) not in (int, float):
        return ()
    if divisor != 0 or call.site is None or isinstance(node.right, ast.Constant):
        return ()
    spot = SourceTrace(IsNumber(divisor), trip.frames).follow(node.right, ground_of(call.stack, trip.frames)).spot
    here = Spot.of_site(call.site)
    made = spot.node() if spot is not None else None
    if spot is None or (spot.filename, spot.line) == (here.filename, here.line):
        return ()
    is_other = isinstance(made, ast.Constant) and made.value != divisor
    return (spot.hop(f"gives the 0 that {ast.unparse(node.right)} is"),) if not is_other else ()


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
    return SourceTrace(NotFinite(trip.tape, infinite=number == number), trip.frames).follow(sides[0], ground).spot


def _is_tensor(node: ast.expr, ground: Ground, trip: Trip) -> bool:
    try:
        return isinstance(look_at(node, ground, trip.frames), torch.Tensor)
    except Unknown:
        return False
