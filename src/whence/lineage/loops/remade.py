"""What a loop of the program's goes over, made again in a child process: its batches, one after the other, as they came."""

from __future__ import annotations

import ast
import inspect
from itertools import islice, pairwise
from types import FrameType
from typing import Any

from whence.lineage.datasets.departure import Departure
from whence.lineage.datasets.deviating import deviation_in
from whence.lineage.properties import HasAxis
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.source.definitions import is_bound_after
from whence.source.sites import Site, variables
from whence.source.text import function_node, statement_at
from whence.tape.batches import leaves_of

MOST_READ = 5_000


def deviation_in_loop(
    stack: tuple[Site, ...], shape: tuple[int, ...], prop: HasAxis, frames: list[FrameType]
) -> Departure | None:
    """For a tensor that a generator made: the line at which its batch departs from those that the loop had before."""
    loop = _loop_over(stack, frames)
    if loop is None:
        return None
    node, frame = loop

    def ask() -> Departure | None:
        names = {**frame.f_globals, **variables(frame)}
        code = compile(ast.Expression(node), "<again>", "eval")
        path = _path_of(eval(code, names), shape)
        return deviation_in(lambda: eval(code, names), path, prop) if path is not None else None

    try:
        return run_in_child(ask, need=Need.EXPRESSION)
    except NotPossible:
        return None


def _loop_over(
    stack: tuple[Site, ...], frames: list[FrameType]
) -> tuple[ast.expr, FrameType] | None:
    """What the loop around a generator goes over, if that can be asked for a second time."""
    for inner, outer in pairwise(stack):
        statement = statement_at(outer.filename, outer.f_lineno)
        if not inner.f_code.co_flags & inspect.CO_GENERATOR or not isinstance(statement, ast.For):
            continue
        frame, scope = (
            next((each for each in frames if each.f_code is outer.f_code), None),
            function_node(outer),
        )
        names = [each.id for each in ast.walk(statement.iter) if isinstance(each, ast.Name)]
        if (
            frame is None
            or scope is None
            or any(is_bound_after(name, scope, statement) for name in names)
        ):
            continue
        if any(isinstance(each, ast.Call) for each in ast.walk(statement.iter)):
            # A name alone is of an iterator that the loop has used up.
            return statement.iter, frame
    return None


def _path_of(batches: Any, shape: tuple[int, ...]) -> str | None:
    """Where in what it gives a tensor of this shape stands, if in one place only."""
    for batch in islice(batches, MOST_READ):
        found = [path for path, leaf in leaves_of(batch) if getattr(leaf, "shape", None) == shape]
        if found:
            return found[0] if len(found) == 1 else None
    return None
