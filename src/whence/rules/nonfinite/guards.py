"""The program checks its gradients for NaN, but updates regardless of the answer."""

from __future__ import annotations

import ast
from types import FrameType
from typing import Any

import torch

from whence.source.blocks import block_of
from whence.source.edits import diff_of
from whence.source.sites import variables
from whence.source.statements import wrap
from whence.source.text import last_name, tree_of
from whence.tape.trip import Trip

CHECKS = frozenset({"isfinite", "isnan", "isinf"})


def guarded_update(trip: Trip) -> str | None:
    """Put the update under the program's own check, if exactly one precedes it in its block.

    The variable holds the answer for a bad step, so its value gives the direction of the `if`.
    """
    site = trip.stack[0] if trip.stack else None
    update = site.statement() if site is not None else None
    frame = next(
        (each for each in trip.frames if site is not None and each.f_code is site.f_code), None
    )
    if site is None or update is None or frame is None or not isinstance(update, ast.Expr):
        return None
    block = block_of(update)
    if update not in block:
        return None
    names = {
        name
        for each in block[: block.index(update)]
        if (name := _checked(each, site.filename)) is not None and _answer(name, frame) is not None
    }
    if len(names) != 1:
        return None
    name = names.pop()
    return diff_of(
        wrap(site.filename, [update], f"if not {name}:" if _answer(name, frame) else f"if {name}:")
    )


def _checked(statement: ast.stmt, filename: str) -> str | None:
    """The variable assigned from a finiteness check, made here or in a function of this file."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _checks_finite(
            value
        ) or _checks_finite(_called(value, filename)):
            return name
    return None


def _checks_finite(node: ast.AST | None) -> bool:
    calls = (
        [each for each in ast.walk(node) if isinstance(each, ast.Call)] if node is not None else []
    )
    return any(last_name(each.func) in CHECKS for each in calls)


def _called(value: ast.expr, filename: str) -> ast.FunctionDef | None:
    name, tree = last_name(value.func) if isinstance(value, ast.Call) else None, tree_of(filename)
    functions = (
        [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
        if tree is not None
        else []
    )
    found = [each for each in functions if each.name == name]
    return found[0] if len(found) == 1 else None


def _answer(name: str, frame: FrameType) -> bool | None:
    value: Any = variables(frame).get(name)
    if isinstance(value, torch.Tensor) and value.dtype is torch.bool and value.numel() == 1:
        return bool(value)
    return value if isinstance(value, bool) else None
