"""A stretch that was cut out and came too short, although there was enough to cut from: it was drawn to begin too late."""

from __future__ import annotations

import ast
from types import FrameType

from whence.lineage.looking import Unknown, look
from whence.source.definitions import Kind, definitions_before
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, last_name, statement_of

DRAWS = frozenset(
    {
        "randint",
        "randrange",
        "integers",
        "random_integers",
        "random",
        "uniform",
        "rand",
        "choice",
        "normal",
        "randn",
    }
)
DEEPEST = 4


def late_start(spot: Spot, axis: int, size: int, frames: list[FrameType]) -> Spot | None:
    """Where the beginning of a cut is drawn, if what it was cut from has `size` elements on that axis (counted from the end)."""
    node = spot.node()
    cuts = (
        [each for each in ast.walk(node) if isinstance(each, ast.Subscript)]
        if node is not None
        else []
    )
    for frame in frames if len(cuts) == 1 else ():
        scope = function_node(Site.of(frame))
        if (
            frame.f_code.co_filename != spot.filename
            or scope is None
            or cuts[0] not in ast.walk(scope)
        ):
            continue
        for begin in _begin(cuts[0], axis, size, frame):
            made = _drawn(begin, scope, 0)
            if made is not None:
                # One that follows from the index is as it must be.
                return Spot.of_node(spot.filename, made)
    return None


def _drawn(begin: ast.Name, scope: ast.AST, depth: int) -> ast.expr | None:
    """What a variable is set to, if random numbers are in it."""
    for definition in (
        definitions_before(begin.id, scope, statement_of(begin) or begin) if depth < DEEPEST else ()
    ):
        made = definition.value if definition.kind is Kind.ASSIGNED else None
        for each in ast.walk(made) if made is not None else ():
            draws = isinstance(each, ast.Call) and last_name(each.func) in DRAWS
            reads = isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
            if draws or (
                isinstance(each, ast.Name) and reads and _drawn(each, scope, depth + 1) is not None
            ):
                return made
    return None


def _begin(cut: ast.Subscript, axis: int, size: int, frame: FrameType) -> list[ast.Name]:
    """The variables that say where a cut begins, where it could have begun earlier."""
    try:
        shape = tuple(getattr(look(cut.value, frame), "shape", ()))
    except Unknown:
        return []
    parts = cut.slice.elts if isinstance(cut.slice, ast.Tuple) else [cut.slice]
    place = len(shape) + axis
    if (
        not all(isinstance(each, ast.Slice) for each in parts)
        or not 0 <= place < len(parts)
        or shape[place] < size
    ):
        return []
    begin = getattr(parts[place], "lower", None)
    return (
        [each for each in ast.walk(begin) if isinstance(each, ast.Name)]
        if begin is not None
        else []
    )
