"""A stretch that was cut out and came too short, although there was enough to cut from: it was drawn to begin too late."""

from __future__ import annotations

import ast
from types import FrameType

from whence.lineage.looking import Unknown, look
from whence.source.definitions import Kind, find_definition
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, last_name, statement_of

DRAWS = frozenset({"randint", "randrange", "integers", "random_integers", "random", "uniform", "rand", "choice"})


def late_start(spot: Spot, axis: int, size: int, frames: list[FrameType]) -> Spot | None:
    """Where the beginning of a cut is drawn, if what it was cut from has `size` elements on that axis (counted from the end)."""
    node = spot.node()
    cuts = [each for each in ast.walk(node) if isinstance(each, ast.Subscript)] if node is not None else []
    for frame in frames if len(cuts) == 1 else ():
        scope = function_node(Site.of(frame))
        if frame.f_code.co_filename != spot.filename or scope is None or cuts[0] not in ast.walk(scope):
            continue
        begin = _begin(cuts[0], axis, size, frame)
        definition = find_definition(begin.id, scope, statement_of(begin) or begin) if begin is not None else None
        made = definition.value if definition is not None and definition.kind is Kind.ASSIGNED else None
        if made is not None and any(
            isinstance(each, ast.Call) and last_name(each.func) in DRAWS for each in ast.walk(made)
        ):
            # One that follows from the index is as it must be.
            return Spot.of_node(spot.filename, made)
    return None


def _begin(cut: ast.Subscript, axis: int, size: int, frame: FrameType) -> ast.Name | None:
    """The variable that a cut begins at, where it could have begun earlier."""
    try:
        shape = tuple(getattr(look(cut.value, frame), "shape", ()))
    except Unknown:
        return None
    parts = cut.slice.elts if isinstance(cut.slice, ast.Tuple) else [cut.slice]
    place = len(shape) + axis
    if not all(isinstance(each, ast.Slice) for each in parts) or not 0 <= place < len(parts) or shape[place] < size:
        return None
    begin = getattr(parts[place], "lower", None)
    return begin if isinstance(begin, ast.Name) else None
