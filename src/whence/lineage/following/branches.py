"""Which arm of an `if` has run, where what it asks is still known."""

from __future__ import annotations

import ast
from types import FrameType
from typing import Any

from whence.lineage.grounds import Ground, ground_of, look_at
from whence.lineage.looking import Unknown, look_among
from whence.source.definitions import (
    FunctionNode,
    argument_for,
    class_of_method,
    is_bound_after,
    parameter_names,
)

PLAIN = (bool, int, float, str, type(None), list, tuple, dict)


def arm_taken(branching: ast.If, ground: Ground, frames: list[FrameType]) -> str | None:
    names = [each.id for each in ast.walk(branching.test) if isinstance(each, ast.Name)]
    if any(is_bound_after(each, ground.scope, branching) for each in names):
        return None
    try:
        asked = _asked(branching.test, names, ground, frames)
    except Unknown:
        return None
    return ("body" if asked else "orelse") if isinstance(asked, PLAIN) else None


def _asked(test: ast.expr, names: list[str], ground: Ground, frames: list[FrameType]) -> Any:
    try:
        return look_at(test, ground, frames)
    except Unknown:
        return look_among(test, {each: _given(each, ground, frames) for each in names})


def _given(name: str, ground: Ground, frames: list[FrameType]) -> Any:
    """What a function that is over was called with, by its call."""
    scope, caller = ground.scope, ground.caller or _caller_of(ground, frames)
    if caller is None or not isinstance(scope, FunctionNode) or name not in parameter_names(scope):
        raise Unknown
    call, outer = caller
    passed = argument_for(call, scope, name, bound=class_of_method(scope) is not None)
    if passed is None:
        raise Unknown
    return look_at(passed, outer, frames)


def _caller_of(ground: Ground, frames: list[FrameType]) -> tuple[ast.Call, Ground] | None:
    node = ground.outer[0].node() if ground.outer else None
    outer = ground_of(ground.outer, frames)
    return (node, outer) if isinstance(node, ast.Call) and outer is not None else None
