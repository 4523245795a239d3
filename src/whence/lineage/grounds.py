"""Where an expression stands, and which values are still known there."""

from __future__ import annotations

import ast
import gc
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, GeneratorType
from typing import Any

from torch import nn

from whence.lineage.looking import Unknown, look, look_among
from whence.source.definitions import FunctionNode, find_definition, parameter_names
from whence.source.sites import Site, is_library
from whence.source.text import enclosing, function_node, parent_of, tree_of


@dataclass(frozen=True, slots=True)
class Ground:
    """Where an expression stands: its function, the frame that has its values, and who called it."""

    filename: str
    scope: ast.AST
    frame: FrameType | None = None
    caller: tuple[ast.Call, Ground] | None = None
    outer: tuple[Site, ...] = ()
    owner: Any = None
    """The object that `self` is, where the frame is gone and the object is not."""
    stale: str = ""
    """What is being set here, as it is written: what is read of it was there before."""


def ground_of(stack: tuple[Site, ...], frames: list[FrameType]) -> Ground | None:
    if not stack:
        return None
    site = stack[0]
    scope = function_node(site)
    if scope is None:
        return None
    frame = next((each for each in frames if each.f_code is site.f_code), None)
    return Ground(site.filename, scope, frame or suspended(site.f_code), outer=stack[1:])


def ground_of_node(node: ast.AST, filename: str, frames: list[FrameType]) -> Ground:
    """Where an expression of a file stands, whoever runs it."""
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module)
    walker = node if inside else enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
    scope = walker or tree_of(filename) or node
    own = (each for each in frames if each.f_code.co_filename == filename)
    return Ground(
        filename, scope, next((each for each in own if function_node(Site.of(each)) is scope), None)
    )


def module_ground(ground: Ground, frames: list[FrameType]) -> Ground | None:
    """The file around a function."""
    tree = tree_of(ground.filename)
    if tree is None:
        return None
    own = (each for each in frames if each.f_code.co_filename == ground.filename)
    return Ground(
        ground.filename,
        tree,
        next((each for each in own if each.f_code.co_name == "<module>"), None),
    )


def outer_sites(frame: FrameType) -> tuple[Site, ...]:
    """Where the program's functions around a frame stand, from inside to outside."""
    found, walker = [], frame.f_back
    while walker is not None:
        if not is_library(walker.f_code.co_filename):
            found.append(Site.of(walker))
        walker = walker.f_back
    return tuple(found)


def suspended(code: CodeType) -> FrameType | None:
    """The frame of a generator that waits to be asked for more, if there is one of its kind and no other."""
    if not code.co_flags & inspect.CO_GENERATOR:
        return None
    waiting = [
        each for each in gc.get_objects() if type(each) is GeneratorType and each.gi_code is code
    ]
    frames = [each.gi_frame for each in waiting if each.gi_frame is not None]
    return frames[0] if len(frames) == 1 else None


def look_at(node: ast.expr, ground: Ground, frames: list[FrameType]) -> Any:
    """The value that an expression has where it stands, as things are now."""
    return (
        look(node, ground.frame)
        if ground.frame is not None
        else _look_outside(node, ground, frames)
    )


def _look_outside(node: ast.expr, ground: Ground, frames: list[FrameType]) -> Any:
    """The value of an expression of whose function nothing is left, if it reads only what stands in the file itself, or of its object."""
    own = _self_name(ground)
    functions = list(_functions_around(ground.scope))
    for part in ast.walk(node):
        if (
            isinstance(part, ast.Name)
            and part.id != own
            and any(find_definition(part.id, each, None) for each in functions)
        ):
            raise Unknown
    return look_among(
        node, {**_globals_of(ground.filename, frames), **({own: ground.owner} if own else {})}
    )


def _self_name(ground: Ground) -> str:
    names = parameter_names(ground.scope) if isinstance(ground.scope, FunctionNode) else []
    return names[0] if names and ground.owner is not None else ""


def _functions_around(scope: ast.AST) -> Iterator[ast.AST]:
    walker: ast.AST | None = scope
    while walker is not None:
        if isinstance(walker, FunctionNode):
            yield walker
        walker = parent_of(walker)


def _globals_of(filename: str, frames: list[FrameType]) -> dict[str, Any]:
    for frame in frames:
        if frame.f_code.co_filename == filename:
            return frame.f_globals
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == filename:
            return vars(module)
    raise Unknown


def may_call(call: ast.Call, ground: Ground, function: FunctionNode, filename: str) -> bool:
    """Whether a call may be one of this function. It is not, where what it calls is known and is something else."""
    if ground.frame is None:
        return True
    try:
        target = look(call.func, ground.frame)
    except Unknown:
        return True
    code = _code_of(target)
    first = [function.lineno, *(each.lineno for each in getattr(function, "decorator_list", ()))]
    return code is None or (code.co_filename == filename and code.co_firstlineno in first)


def _code_of(target: Any) -> CodeType | None:
    """What runs when something is called."""
    if isinstance(target, type):
        target = vars(target).get("__init__")
    elif isinstance(target, nn.Module):
        target = type(target).forward
    elif not hasattr(target, "__code__") and not hasattr(target, "__func__"):
        target = inspect.getattr_static(type(target), "__call__", None)
    target = inspect.unwrap(getattr(target, "__func__", target)) if target is not None else None
    return getattr(target, "__code__", None)
