"""Into generators that wait: what they gave last was made of variables that are still in their frames."""

from __future__ import annotations

import ast
from contextlib import suppress
from types import FrameType, GeneratorType
from typing import TYPE_CHECKING

from whence.lineage.following.calls import follow_again
from whence.lineage.following.carriers import value_of
from whence.lineage.following.found import PASSED_ON
from whence.lineage.grounds import Ground
from whence.lineage.looking import Unknown
from whence.source.sites import Site, is_library
from whence.source.spots import Spot
from whence.source.text import function_node, statement_at

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace


def follow_drawn(trace: SourceTrace, node: ast.Call, ground: Ground) -> Spot | None:
    """A call that draws on a generator of the program's, `list(islice(stream, 2))`: the birth of what that gave last, if it has it."""
    for name in ast.walk(node) if trace.prop.singles_out else ():
        if not isinstance(name, ast.Name):
            continue
        with suppress(Unknown):
            frame = _waiting(value_of(trace, name, ground))
            spot = _in_last_given(trace, frame) if frame is not None else None
            if spot is not None:
                trace.hops.append(Spot.of_node(ground.filename, node).hop(PASSED_ON))
                return spot
    return None


def _waiting(thing: object) -> FrameType | None:
    frame = thing.gi_frame if type(thing) is GeneratorType and not thing.gi_running else None
    return frame if frame is not None and not is_library(frame.f_code.co_filename) else None


def _in_last_given(trace: SourceTrace, frame: FrameType) -> Spot | None:
    site = Site.of(frame)
    scope, statement = function_node(site), statement_at(site.filename, site.f_lineno)
    if scope is None or statement is None:
        return None
    ground = Ground(site.filename, scope, frame)
    for each in ast.walk(statement):
        if isinstance(each, ast.Yield) and each.value is not None:
            return _birth_of(trace, each.value, ground)
    return None


def _birth_of(trace: SourceTrace, given: ast.expr, ground: Ground) -> Spot | None:
    """Nothing is guessed: the value of a variable shows it, or a function that is called once more."""
    if isinstance(given, ast.Tuple | ast.List | ast.Dict):
        parts = given.values if isinstance(given, ast.Dict) else given.elts
        return next(
            (spot for each in parts if (spot := _birth_of(trace, each, ground)) is not None), None
        )
    if isinstance(given, ast.Call):
        return follow_again(trace, given, ground)
    with suppress(Unknown):
        if trace.prop.holds(value_of(trace, given, ground)):
            return trace.expression(given, ground)
    return None
