"""Custom autograd Functions: run again on other tensors, and their backward in the source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from whence.source.classes import method_of
from whence.source.definitions import Kind, all_parameter_names, definitions_before
from whence.source.sites import is_library
from whence.tape.native import run_native
from whence.tape.tape import Call, Value, flatten, map_leaves


def is_librarys(kind: type) -> bool:
    try:
        return is_library(inspect.getfile(kind))
    except (TypeError, OSError):
        return True


def caller_of(call: Call) -> Callable[[Sequence[torch.Tensor]], torch.Tensor]:
    """The applied Function as a function of its tensors, returning its first floating result."""

    def run(inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        by_value = dict(zip(call.operands, inputs, strict=True))

        def put(thing: Any) -> Any:
            return by_value[thing] if isinstance(thing, Value) else thing

        result = run_native(call.func, map_leaves(put, call.args), map_leaves(put, call.kwargs))
        made = [
            each
            for each in flatten(result)
            if isinstance(each, torch.Tensor) and each.is_floating_point()
        ]
        if not made:
            raise TypeError("no result to differentiate")
        return made[0]

    return run


def parameter_names(kind: Any) -> list[str]:
    """The parameters of its forward, without the context."""
    try:
        names = list(inspect.signature(kind.forward).parameters)
    except (TypeError, ValueError):
        return []
    return names[1:] if names and names[0] in ("ctx", "context", "self") else names


def argument_position(call: Call, number: int) -> int:
    """The position of a tensor among the Function's arguments."""
    at = [place for place, each in enumerate(call.args) if each is call.operands[number]]
    return at[0] if at else number


def gradient_written(kind: type, position: int) -> tuple[ast.AST, str] | None:
    """Where backward computes the gradient for an argument, and the file.

    That is the returned expression, or the one assignment to the returned variable if it uses the
    incoming gradient.
    """
    found = returned_by_backward(kind)
    method, filename = method_of(kind, "backward")
    if found is None or method is None:
        return None
    value = found[0].value
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    part = parts[position] if position < len(parts) else None
    if isinstance(part, ast.Name):
        given = _made_of(set(all_parameter_names(method)[1:]), method)
        known = definitions_before(part.id, method, found[0])
        whole = (
            known[0].value
            if len(known) == 1 and known[0].kind is Kind.ASSIGNED and not known[0].path
            else None
        )
        if whole is not None and any(
            isinstance(each, ast.Name) and each.id in given for each in ast.walk(whole)
        ):
            return known[0].node, filename
    return found


def shared_by(kind: type, wrong: Sequence[int], right: Sequence[int]) -> tuple[ast.AST, str] | None:
    """Where the one variable of backward that only the wrong gradients use is set.

    None if one of them does not use the incoming gradient: then that is the mistake.
    """
    method, filename = method_of(kind, "backward")
    if method is None:
        return None
    used, others = (
        [_names_in(kind, each) for each in wrong],
        [_names_in(kind, each) for each in right],
    )
    given = _made_of(set(all_parameter_names(method)[1:]), method)
    if not all(each & given for each in used):
        return None
    found = [
        known[0].node
        for name in sorted(set.intersection(*used).difference(*others))
        if len(known := definitions_before(name, method, method.body[-1])) == 1
        and known[0].kind is Kind.ASSIGNED
        and not known[0].path
    ]
    return (found[0], filename) if len(found) == 1 else None


def _names_in(kind: type, position: int) -> set[str]:
    """The names in the formula of one gradient."""
    written = gradient_written(kind, position)
    formula: ast.AST | None = written[0] if written is not None else None
    if (
        isinstance(formula, ast.Return)
        and isinstance(formula.value, ast.Tuple)
        and position < len(formula.value.elts)
    ):
        formula = formula.value.elts[position]
    names = (
        (each for each in ast.walk(formula) if isinstance(each, ast.Name))
        if formula is not None
        else ()
    )
    return {each.id for each in names if isinstance(each.ctx, ast.Load)}


def _made_of(names: set[str], method: ast.FunctionDef) -> set[str]:
    """Some variables, and those computed from them."""
    found = set(names)
    for node in ast.walk(method):
        if isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id in found for each in ast.walk(node.value)
        ):
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return found


def returned_by_backward(kind: type) -> tuple[ast.Return, str] | None:
    """The last `return` of its backward, and the file."""
    node, filename = method_of(kind, "backward")
    returns = (
        [each for each in ast.walk(node) if isinstance(each, ast.Return)]
        if node is not None
        else []
    )
    return (returns[-1], filename) if returns else None
