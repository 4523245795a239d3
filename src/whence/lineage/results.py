"""Who gave a value that is not a tensor: the call whose result it is, found in the source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import nn

from whence.lineage.grounds import Ground, ground_of
from whence.lineage.looking import Unknown, look
from whence.source.definitions import (
    Definition,
    FunctionNode,
    Kind,
    argument_for,
    class_of_method,
    falling_through,
    find_class,
    find_function,
    reaching_definitions,
)
from whence.source.sites import Site, is_library
from whence.source.spots import Spot
from whence.source.text import parent_of, statement_of, tree_of


@dataclass(frozen=True, slots=True)
class Result:
    """The call that gave the value. Where the function has no return, the spot is its last statement."""

    giver: str
    spot: Spot
    statement: ast.stmt | None
    returns_nothing: bool = False
    module: nn.Module | None = None
    """The layer that was called, if it was one."""


def result_of(
    node: ast.AST, thing: Any, ground: Ground, frames: list[FrameType], stack: tuple[Site, ...]
) -> Result | None:
    """Follow the part of an expression that has this value back to the call that gave it."""
    for name, where in _names(node, thing, ground):
        found = _from_name(name, thing, where, frames, stack, depth=0)
        if found is not None:
            return found
    for part in _calls_inside(node):
        if _gives(part, thing, ground):
            return _from_call(part, thing, ground)
    return None


def _names(node: ast.AST, thing: Any, ground: Ground) -> Iterator[tuple[ast.Name, Ground]]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and ground.frame is not None:
            try:
                if look(part, ground.frame) is thing:
                    yield part, ground
            except Unknown:
                continue


def _calls_inside(node: ast.AST) -> Iterator[ast.Call]:
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.Call):
            yield part
        elif isinstance(part, ast.expr):
            yield from _calls_inside(part)


def _from_name(
    node: ast.Name,
    thing: Any,
    ground: Ground,
    frames: list[FrameType],
    stack: tuple[Site, ...],
    depth: int,
) -> Result | None:
    if depth > 6:
        return None
    for definition in reaching_definitions(node.id, ground.scope, statement_of(node) or node):
        found = _from_definition(definition, node, thing, ground, frames, stack, depth)
        if found is not None:
            return found
    return None


def _from_definition(
    definition: Definition,
    node: ast.Name,
    thing: Any,
    ground: Ground,
    frames: list[FrameType],
    stack: tuple[Site, ...],
    depth: int,
) -> Result | None:
    if (
        definition.kind is Kind.PARAMETER
        and isinstance(definition.node, FunctionNode)
        and len(stack) > 1
    ):
        outside = ground_of(stack[1:], frames)
        call = stack[1].node()
        if outside is None or not isinstance(call, ast.Call):
            return None
        argument = argument_for(
            call, definition.node, node.id, bound=class_of_method(definition.node) is not None
        )
        if isinstance(argument, ast.Name):
            return _from_name(argument, thing, outside, frames, stack[1:], depth + 1)
        return _from_call(argument, thing, outside) if isinstance(argument, ast.Call) else None
    if isinstance(definition.value, ast.Name):
        return _from_name(definition.value, thing, ground, frames, stack, depth + 1)
    return (
        _from_call(definition.value, thing, ground)
        if isinstance(definition.value, ast.Call)
        else None
    )


def _gives(call: ast.Call, thing: Any, ground: Ground) -> bool:
    target = _target(call, ground)
    if thing is None:
        function = _function(target)
        return function is not None and falling_through(function[0]) is not None
    return isinstance(target, nn.Module) or callable(target)


def _from_call(call: ast.Call, thing: Any, ground: Ground) -> Result | None:
    target = _target(call, ground)
    name = ast.unparse(call.func)
    if thing is None:
        function = _function(target)
        last = falling_through(function[0]) if function is not None else None
        if function is None or last is None or isinstance(function[0], ast.Lambda):
            return None
        owner = (
            f"{type(target).__name__}.forward"
            if isinstance(target, nn.Module)
            else function[0].name
        )
        return Result(owner, Spot.of_node(function[1], last), last, returns_nothing=True)
    statement = statement_of(call)
    return Result(
        name,
        Spot.of_node(ground.filename, call),
        statement if parent_of(call) is statement else None,
        module=target if isinstance(target, nn.Module) else None,
    )


def _target(call: ast.Call, ground: Ground) -> Any:
    if ground.frame is None:
        return None
    try:
        return look(call.func, ground.frame)
    except Unknown:
        return None


def _function(target: Any) -> tuple[FunctionNode, str] | None:
    """The source of what is called: a module's forward, or a function of the program's."""
    function = (
        type(target).forward
        if isinstance(target, nn.Module)
        else getattr(target, "__func__", target)
    )
    code = getattr(function, "__code__", None)
    if code is None or not inspect.isfunction(function) or is_library(code.co_filename):
        return None
    tree = tree_of(code.co_filename)
    scope: ast.AST | None = tree
    if isinstance(target, nn.Module) and tree is not None:
        scope = find_class(type(target).__name__, tree) or tree
    found = find_function(code.co_name, scope) if scope is not None else None
    return (found, code.co_filename) if found is not None else None
