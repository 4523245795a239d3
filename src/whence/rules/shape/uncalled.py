"""A method that was not called where a tensor is needed: `loss.mean` for `loss.mean()`.

Reported by shape/wrong-container, which documents it.
"""

from __future__ import annotations

import ast
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch

from whence.finding import Finding
from whence.rules.telling import failure_finding
from whence.source.definitions import find_definition
from whence.source.edits import diff_of, insert_after
from whence.source.spots import Spot
from whence.source.text import function_node
from whence.tape.failed import FailedCall


def uncalled(failed: FailedCall) -> Finding | None:
    thing = next(
        (
            each
            for each in (*failed.args, *failed.kwargs.values())
            if _is_meant_as_a_tensor(failed, each)
        ),
        None,
    )
    if thing is None:
        return None
    spot = _uncalled_method(failed)
    return failure_finding(
        failed,
        "shape/wrong-container",
        verdict=f"expected a tensor, got the function {_name(thing)}, which was not called",
        spot=spot,
        why="Without parentheses the name refers to the function itself, not to its result.",
        fix=f"Call the function: {_name(thing)}(...).",
        patch=diff_of(insert_after(spot.filename, node, "()"))
        if spot is not None and (node := spot.node()) is not None and _is_of_a_tensor(thing)
        else None,
    )


def _is_meant_as_a_tensor(failed: FailedCall, thing: Any) -> bool:
    """A tensor's own method, or a function whose missing attribute is a tensor's."""
    if not isinstance(thing, FunctionType | BuiltinFunctionType | MethodType):
        return False
    wanted = failed.exception.name if isinstance(failed.exception, AttributeError) else None
    return hasattr(torch.Tensor, wanted) if wanted is not None else _is_of_a_tensor(thing)


def _is_of_a_tensor(thing: Any) -> bool:
    return isinstance(getattr(thing, "__self__", None), torch.Tensor)


def _name(thing: Any) -> str:
    return str(getattr(thing, "__name__", "it"))


def _uncalled_method(failed: FailedCall) -> Spot | None:
    """The method without parentheses, in the failing line or where its name was assigned."""
    node = failed.site.node() if failed.site is not None else None
    scope = function_node(failed.site) if failed.site is not None else None
    if failed.site is None or node is None or scope is None:
        return None
    given = (
        [node.value]
        if isinstance(node, ast.Attribute)
        else node.args
        if isinstance(node, ast.Call)
        else []
    )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        given = [*given, node.func.value]
    for each in given:
        definition = find_definition(each.id, scope, each) if isinstance(each, ast.Name) else None
        value = definition.value if definition is not None else each
        if isinstance(value, ast.Attribute) and hasattr(torch.Tensor, value.attr):
            return Spot.of_node(failed.site.filename, value)
    return None
