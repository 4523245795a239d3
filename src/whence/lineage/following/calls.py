"""Over calls: into a function of the program's for what it returns, and out of it for what it was given."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whence.lineage.following.calling import callers_of, function_called
from whence.lineage.following.carriers import value_of
from whence.lineage.following.containers import Path
from whence.lineage.following.found import PASSED_ON
from whence.lineage.grounds import Ground
from whence.lineage.lines import Counts, LineWatch
from whence.lineage.looking import Unknown
from whence.lineage.overwritten import as_it_was
from whence.lineage.properties import Property
from whence.lineage.tables import name_of_column
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.source.definitions import (
    Definition,
    FunctionNode,
    argument_for,
    class_of_method,
    returns_of,
)
from whence.source.sites import is_library
from whence.source.spots import Spot

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace


@dataclass(frozen=True, slots=True)
class Had:
    """An argument of a call had the property already: which one, and at which places, where that is known."""

    argument: int
    places: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()


def follow_argument(
    trace: SourceTrace, definition: Definition, ground: Ground, name: str, path: Path
) -> Spot | None:
    """A parameter has the value its caller passed."""
    function = definition.node
    if not isinstance(function, FunctionNode):
        return None
    for call, outside in callers_of(trace, function, ground):
        argument = argument_for(call, function, name, bound=class_of_method(function) is not None)
        if argument is not None:
            return trace.expression(argument, outside, path)
    return None


def follow_returned(trace: SourceTrace, node: ast.Call, ground: Ground, path: Path) -> Spot | None:
    """A call of the program's own function: what that returns."""
    function, filename, owner = function_called(trace, node, ground)
    inner = (
        Ground(filename, function, caller=(node, ground), owner=owner)
        if function is not None
        else None
    )
    if (made := follow_again(trace, node, ground, path)) is not None:
        made = _taken_from(trace, made, inner) or made
        trace.hops.append(Spot.of_node(ground.filename, node).hop(PASSED_ON))
        return made
    if function is None or inner is None:
        return None
    for returned in reversed(returns_of(function)):
        found = trace.expression(returned, inner, path)
        if found is not None:
            trace.hops.append(Spot.of_node(ground.filename, node).hop(PASSED_ON))
            return found
    return None


def _taken_from(trace: SourceTrace, made: Spot, inner: Ground | None) -> Spot | None:
    """Of a line that only takes something out of an attribute, a table say: where that came to be so."""
    node = made.node()
    if (
        inner is None
        or inner.owner is None
        or made.filename != inner.filename
        or not isinstance(node, ast.expr)
    ):
        return None
    held = [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"
    ]
    if trace.prop.is_set_by(node) or len(held) != 1:
        return None
    aside = trace.branched()
    found = aside.expression(held[0], inner)
    if found is None or found.is_within(made):
        return None
    trace.adopt(aside)
    trace.hops.append(made.hop(PASSED_ON))
    return found


def follow_again(
    trace: SourceTrace, node: ast.Call, ground: Ground, path: Path = ()
) -> Spot | None:
    """The line within a function or a constructor after which a variable had the property: called again, aside."""
    found = called_again(trace, node, ground, path)
    if not isinstance(found, Had):
        return found
    within = trace.narrowed(trace.prop.at_places(found.places, found.shape))
    spot = within.expression(_given(node)[found.argument], ground)
    trace.adopt(within)
    return spot


def called_again(
    trace: SourceTrace, node: ast.Call, ground: Ground, path: Path = ()
) -> Spot | Had | None:
    """That line, or the argument that had it already."""
    if (
        not trace.prop.shows_in_lines
        or ground.frame is None
        or not _is_own(trace, node.func, ground)
    ):
        return None
    try:
        return run_in_child(lambda: _call_again(trace.prop, node, ground, path), need=Need.FUNCTION)
    except (NotPossible, Unknown):
        return None


def _is_own(trace: SourceTrace, called: ast.expr, ground: Ground) -> bool:
    """Whether a call is one of a function or a class of the program's."""
    try:
        target = value_of(trace, called, ground)
    except Unknown:
        return False
    code = getattr(
        getattr(target, "__init__" if isinstance(target, type) else "__func__", target),
        "__code__",
        None,
    )
    return code is not None and not is_library(code.co_filename)


def _given(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)]


def _call_again(prop: Property, node: ast.Call, ground: Ground, path: Path) -> Spot | Had | None:
    """The line that made it so, or the argument that had it already. Only ever in a child process."""
    if ground.frame is None or any(isinstance(each, ast.Starred) for each in node.args):
        return None
    try:
        target, *given = (
            as_it_was(each, ground.scope, ground.frame) for each in (node.func, *_given(node))
        )
    except Exception:
        # It cannot be had a second time.
        return None
    args, named = given[: len(node.args)], given[len(node.args) :]
    kwargs = {str(keyword.arg): value for keyword, value in zip(node.keywords, named, strict=True)}
    column = path[-1] if path and isinstance(path[-1], str) else None
    found, result = _watched(prop, target, args, kwargs, column, path)
    if (
        found is None
        and column is None
        and (column := _column_in(_part(result, path), prop)) is not None
    ):
        found, result = _watched(prop, target, args, kwargs, column, path)
    if isinstance(found, Spot) and prop.holds(_part(result, path)) is False:
        return None
    return found


def _watched(
    prop: Property,
    target: Any,
    args: list[Any],
    kwargs: dict[str, Any],
    column: str | None,
    path: Path,
) -> tuple[Spot | Had | None, Any]:
    """What `_call_again` gives, and what the call gave."""
    prop = prop.of_column(column) if column is not None else prop
    for number, value in enumerate((*args, *kwargs.values())):
        if prop.holds(value):
            return _had(prop, number, value, lambda: _part(target(*args, **kwargs), path)), None
    with suppress(Exception):
        args, kwargs = copy.deepcopy((args, kwargs))
    watch = LineWatch(prop, Counts.LASTING)
    result = watch.during(lambda: target(*args, **kwargs))
    found = watch.spot("".join(f"[{each!r}]" for each in path))
    return found[0] if found is not None else None, result


def _had(prop: Property, number: int, value: Any, make: Callable[[], Any]) -> Had:
    """An argument that had it before; where the call keeps the shape, at the places only where its result still has it."""
    shape = getattr(value, "shape", None)
    places: tuple[int, ...] = ()
    if shape is not None:
        # A fill that leaves the beginning as it was: what it has filled is not to blame.
        with suppress(Exception):
            result = make()
            places = prop.places_in(result) if getattr(result, "shape", None) == shape else ()
    return Had(number, places, tuple(shape) if places and shape is not None else ())


def _column_in(table: Any, prop: Property) -> str | None:
    """The name of the column that is asked for, where a table was made."""
    number = getattr(prop, "column", -1)
    return name_of_column(table, number) if number >= 0 else None


def _part(thing: Any, path: Path) -> Any:
    """None where there is no such part."""
    for key in path:
        try:
            thing = thing[key]
        except (TypeError, KeyError, IndexError):
            return None
    return thing
