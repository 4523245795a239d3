"""Over calls: into a function of the program's for what it returns, and out of it for what it was given."""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn

from whence.lineage.elsewhere import NotPossible, run_elsewhere
from whence.lineage.following.carriers import value_of
from whence.lineage.following.containers import Path
from whence.lineage.following.found import PASSED_ON
from whence.lineage.grounds import Ground, ground_of, ground_of_node, look_at, may_call
from whence.lineage.lines import Counts, LineWatch
from whence.lineage.looking import Unknown
from whence.lineage.overwritten import as_it_was
from whence.lineage.properties import Property
from whence.source.classes import method_of
from whence.source.definitions import (
    Definition,
    FunctionNode,
    argument_for,
    class_of_method,
    find_function,
    returns_of,
)
from whence.source.sites import is_library
from whence.source.spots import Spot
from whence.source.text import last_name, tree_of

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace


def follow_argument(trace: SourceTrace, definition: Definition, ground: Ground, name: str, path: Path) -> Spot | None:
    """A parameter has the value its caller passed."""
    function = definition.node
    if not isinstance(function, FunctionNode):
        return None
    for call, outside in _callers(trace, function, ground):
        argument = argument_for(call, function, name, bound=class_of_method(function) is not None)
        if argument is not None:
            return trace.expression(argument, outside, path)
    return None


def _callers(trace: SourceTrace, function: FunctionNode, ground: Ground) -> Iterator[tuple[ast.Call, Ground]]:
    if ground.caller is not None:
        yield ground.caller
        return
    if ground.outer:
        node = ground.outer[0].node()
        outside = ground_of(ground.outer, trace.frames)
        if isinstance(node, ast.Call) and outside is not None and may_call(node, outside, function, ground.filename):
            yield node, outside
            return
    # The frame is gone and nobody noted its caller: every call of that name in the running program's files.
    owner = class_of_method(function)
    called = owner.name if owner is not None and function.name == "__init__" else getattr(function, "name", "")  # type: ignore[union-attr]
    for filename in dict.fromkeys((*(frame.f_code.co_filename for frame in trace.frames), ground.filename)):
        tree = tree_of(filename)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call) and last_name(node.func) == called:
                yield node, ground_of_node(node, filename, trace.frames)


def follow_returned(trace: SourceTrace, node: ast.Call, ground: Ground, path: Path) -> Spot | None:
    """A call of the program's own function: what that returns."""
    if (made := follow_again(trace, node, ground, path)) is not None:
        trace.hops.append(Spot.of_node(ground.filename, node).hop(PASSED_ON))
        return made
    function, filename, owner = _function(trace, node, ground)
    if function is None:
        return None
    inner = Ground(filename, function, caller=(node, ground), owner=owner)
    for returned in reversed(returns_of(function)):
        found = trace.expression(returned, inner, path)
        if found is not None:
            trace.hops.append(Spot.of_node(ground.filename, node).hop(PASSED_ON))
            return found
    return None


def follow_again(trace: SourceTrace, node: ast.Call, ground: Ground, path: Path = ()) -> Spot | None:
    """The line within a function or a constructor after which a variable had the property: called again, aside."""
    if not trace.prop.shows_in_lines or ground.frame is None or not _is_own(trace, node.func, ground):
        return None
    try:
        found = run_elsewhere(lambda: _call_again(trace.prop, node, ground, path))
    except (NotPossible, Unknown):
        return None
    # It has it from outside, or a line made it.
    return trace.expression(_given(node)[found], ground) if isinstance(found, int) else found


def _is_own(trace: SourceTrace, called: ast.expr, ground: Ground) -> bool:
    """Whether a call is one of a function or a class of the program's."""
    try:
        target = value_of(trace, called, ground)
    except Unknown:
        return False
    code = getattr(getattr(target, "__init__" if isinstance(target, type) else "__func__", target), "__code__", None)
    return code is not None and not is_library(code.co_filename)


def _given(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)]


def _call_again(prop: Property, node: ast.Call, ground: Ground, path: Path) -> Spot | int | None:
    """The line that made it so, or the number of the argument that had it already. Only ever in a child process."""
    if ground.frame is None or any(isinstance(each, ast.Starred) for each in node.args):
        return None
    try:
        target, *given = (as_it_was(each, ground.scope, ground.frame) for each in (node.func, *_given(node)))
    except Exception:
        # It cannot be had a second time.
        return None
    for number, value in enumerate(given):
        if prop.holds(value):
            return number
    args, named = given[: len(node.args)], given[len(node.args) :]
    kwargs = {str(keyword.arg): value for keyword, value in zip(node.keywords, named, strict=True)}
    watch = LineWatch(prop, Counts.LASTING)
    with suppress(Exception):
        args, kwargs = copy.deepcopy((args, kwargs))
    result = watch.during(lambda: target(*args, **kwargs))
    found = watch.spot("".join(f"[{each!r}]" for each in path))
    return found[0] if found is not None and prop.holds(_part(result, path)) is not False else None


def _part(thing: Any, path: Path) -> Any:
    """None where there is no such part."""
    for key in path:
        try:
            thing = thing[key]
        except (TypeError, KeyError, IndexError):
            return None
    return thing


def _function(trace: SourceTrace, node: ast.Call, ground: Ground) -> tuple[FunctionNode | None, str, Any]:
    """The program's function that a call calls, its file, and the object whose method it is."""
    with suppress(Unknown):
        target = look_at(node.func, ground, trace.frames)
        return _function_of(target, ground.filename)
    is_own = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "self"
    return *_function_by_name(node.func, ground.filename), ground.owner if is_own else None


def _function_of(target: Any, filename: str) -> tuple[FunctionNode | None, str, Any]:
    """A function, a method, or what an object does when it is called."""
    function = getattr(target, "__func__", target)
    if isinstance(function, FunctionType):
        file = function.__code__.co_filename
        tree = None if is_library(file) else tree_of(file)
        found = find_function(function.__name__, tree) if tree is not None else None
        return found, file, getattr(target, "__self__", None)
    if isinstance(target, type):
        return None, filename, None
    method, file = method_of(type(target), "forward" if isinstance(target, nn.Module) else "__call__")
    return method, file or filename, target


def _function_by_name(called: ast.expr, filename: str) -> tuple[FunctionNode | None, str]:
    tree = tree_of(filename)
    name = called.id if isinstance(called, ast.Name) else ""
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "self":
        name = called.attr
    found = find_function(name, tree) if tree is not None and name else None
    if found is None and isinstance(called, ast.Attribute):
        found = _only_method(called.attr, tree)
    if found is None and name:
        return _imported_function(name, tree, filename)
    return found, filename


def _only_method(name: str, tree: ast.Module | None) -> FunctionNode | None:
    """The method of that name, if one class of the file has it and no other."""
    kinds = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)] if tree is not None else []
    methods = [each for kind in kinds for each in kind.body if isinstance(each, FunctionNode) and each.name == name]
    return methods[0] if len(methods) == 1 else None


def _imported_function(name: str, tree: ast.Module | None, filename: str) -> tuple[FunctionNode | None, str]:
    """A function that another file of the program defines."""
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                module = sys.modules.get(node.module or "")
                source = getattr(module, "__file__", None)
                if (each.asname or each.name) == name and source and not is_library(source):
                    inner = tree_of(source)
                    return (find_function(each.name, inner) if inner is not None else None), source
    return None, filename
