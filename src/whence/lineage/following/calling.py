"""Who calls whom: the calls of a function of the program's, and the function that a call calls."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from types import FunctionType
from typing import TYPE_CHECKING, Any

from torch import nn

from whence.lineage.grounds import Ground, ground_of, ground_of_node, look_at, may_call
from whence.lineage.looking import Unknown
from whence.source.classes import method_of
from whence.source.definitions import (
    FunctionNode,
    Kind,
    argument_for,
    class_of_method,
    find_definition,
    find_function,
    function_at,
)
from whence.source.files import program_files
from whence.source.sites import is_library
from whence.source.text import last_name, tree_of

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace

DEEPEST = 4
MOST_CALLERS = 8


def callers_of(
    trace: SourceTrace, function: FunctionNode, ground: Ground
) -> Iterator[tuple[ast.Call, Ground]]:
    """The calls of a function: the one it was made by, if that is known, else all that there may be."""
    if ground.caller is not None:
        yield ground.caller
        return
    if ground.outer:
        node = ground.outer[0].node()
        outside = ground_of(ground.outer, trace.frames)
        if (
            isinstance(node, ast.Call)
            and outside is not None
            and may_call(node, outside, function, ground.filename)
        ):
            yield node, outside
            return
    # The frame is gone and nobody noted its caller: every call of that name in the running program's files.
    owner = class_of_method(function)
    called = (
        owner.name
        if owner is not None and function.name == "__init__"  # type: ignore[union-attr]
        else getattr(function, "name", "")
    )
    for filename in dict.fromkeys(
        (*(frame.f_code.co_filename for frame in trace.frames), ground.filename)
    ):
        tree = tree_of(filename)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call) and last_name(node.func) == called:
                yield node, ground_of_node(node, filename, trace.frames)


def function_called(
    trace: SourceTrace, node: ast.Call, ground: Ground
) -> tuple[FunctionNode | None, str, Any]:
    """The program's function that a call calls, its file, and the object whose method it is."""
    with suppress(Unknown):
        target = look_at(node.func, ground, trace.frames)
        return _function_of(target, ground.filename)
    if isinstance(node.func, ast.Attribute):
        with suppress(Unknown):
            owner = _object_of(trace, node.func.value, ground)
            method, filename = method_of(type(owner), node.func.attr)
            return method, filename or ground.filename, owner
    with suppress(Unknown):
        return _function_of(_object_of(trace, node.func, ground), ground.filename)
    is_own = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "self"
    return *_function_by_name(node.func, ground.filename), ground.owner if is_own else None


def _object_of(trace: SourceTrace, node: ast.expr, ground: Ground, depth: int = 0) -> Any:
    """What a parameter was in a function of which nothing is left: what those who call it give it, if that is of one kind."""
    with suppress(Unknown):
        return look_at(node, ground, trace.frames)
    if not isinstance(node, ast.Name) or depth > DEEPEST:
        raise Unknown
    known = find_definition(node.id, ground.scope, None)
    function = known.node if known is not None and known.kind is Kind.PARAMETER else None
    if not isinstance(function, FunctionNode):
        raise Unknown
    given: list[Any] = []
    for call, outside in islice(callers_of(trace, function, ground), MOST_CALLERS):
        argument = argument_for(
            call, function, node.id, bound=class_of_method(function) is not None
        )
        if argument is None:
            raise Unknown
        given.append(_object_of(trace, argument, outside, depth + 1))
    if len({type(each) for each in given}) != 1:
        raise Unknown
    return given[0]


def _function_of(target: Any, filename: str) -> tuple[FunctionNode | None, str, Any]:
    """A function, a method, or what an object does when it is called."""
    function = getattr(target, "__func__", target)
    if isinstance(function, FunctionType):
        file = function.__code__.co_filename
        tree = None if is_library(file) else tree_of(file)
        name, line = function.__name__, function.__code__.co_firstlineno
        found = (function_at(line, tree) or find_function(name, tree)) if tree is not None else None
        return found, file, getattr(target, "__self__", None)
    if isinstance(target, type):
        return None, filename, None
    method, file = method_of(
        type(target), "forward" if isinstance(target, nn.Module) else "__call__"
    )
    return method, file or filename, target


def _function_by_name(called: ast.expr, filename: str) -> tuple[FunctionNode | None, str]:
    tree = tree_of(filename)
    name = called.id if isinstance(called, ast.Name) else ""
    if (
        isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Name)
        and called.value.id == "self"
    ):
        name = called.attr
    found = find_function(name, tree) if tree is not None and name else None
    if found is None and isinstance(called, ast.Attribute):
        return _only_method(called.attr, filename)
    if found is None and name:
        return _imported_function(name, tree, filename)
    return found, filename


def _only_method(name: str, filename: str) -> tuple[FunctionNode | None, str]:
    """The method of that name, if one class of the file has it and no other; or if one does in all of the program."""
    found = list(_methods(name, filename))
    if not found:
        others = [(each, file) for file in program_files() for each in _methods(name, file)]
        return others[0] if len(others) == 1 else (None, filename)
    return (found[0] if len(found) == 1 else None), filename


def _methods(name: str, filename: str) -> Iterator[FunctionNode]:
    tree = tree_of(filename)
    for kind in ast.walk(tree) if tree is not None else ():
        if isinstance(kind, ast.ClassDef):
            yield from (
                each for each in kind.body if isinstance(each, FunctionNode) and each.name == name
            )


def _imported_function(
    name: str, tree: ast.Module | None, filename: str
) -> tuple[FunctionNode | None, str]:
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
