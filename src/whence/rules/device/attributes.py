"""Attributes that a module rejects: a plain tensor for a parameter, a layer before __init__."""

from __future__ import annotations

import ast

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.rules.refusals import refusing
from whence.rules.telling import describe, failure_finding
from whence.source.definitions import function_at, name_in
from whence.source.edits import diff_of, insert_after, insert_before
from whence.source.spots import Spot
from whence.source.statements import line_before
from whence.source.text import last_name, tree_of
from whence.tape.failed import FailedCall


def tensor_for_parameter(failed: FailedCall) -> Finding | None:
    """`layer.weight = tensor`, where weight is a parameter."""
    names = refusing(failed, nn.Module, "__setattr__")
    module, name, value = (
        (names["self"], names.get("name"), names.get("value")) if names is not None else (None,) * 3
    )
    if module is None or not isinstance(name, str) or not isinstance(value, torch.Tensor):
        return None
    if isinstance(value, nn.Parameter) or name not in (module.__dict__.get("_parameters") or {}):
        return None
    computed = value.grad_fn is not None
    return failure_finding(
        failed,
        "device/parameter-copy",
        verdict=f"{failed.modules.path_of(module)}.{name} is a parameter, got a plain tensor",
        why=f"A registered parameter of a {type(module).__name__} can only be replaced by another "
        "nn.Parameter, so that optimizers and checkpoints keep finding it.",
        fix=f"Keep the tensors it is computed from as parameters, `del` {name} once, and assign "
        "the computed value in each forward."
        if computed
        else "Wrap the tensor in nn.Parameter(...) before the optimizer is built, or copy its "
        f"values under no_grad: {name}.copy_(...).",
        patch=None if computed else _wrapped(failed),
        operands=(Operand("given", describe(value)),),
    )


def _wrapped(failed: FailedCall) -> str | None:
    statement = failed.site.statement() if failed.site is not None else None
    if failed.site is None or not isinstance(statement, ast.Assign):
        return None
    filename = failed.site.filename
    kind = name_in(filename, "torch.nn", "Parameter")
    value = statement.value
    return (
        diff_of(insert_before(filename, value, f"{kind}("), insert_after(filename, value, ")"))
        if kind
        else None
    )


def before_super_init(failed: FailedCall) -> Finding | None:
    """`self.layer = ...` in an __init__ before super().__init__()."""
    names = refusing(
        failed, nn.Module, "__setattr__", "register_buffer", "register_parameter", "register_module"
    )
    if names is None or "_parameters" in names["self"].__dict__:
        return None
    kind = type(names["self"])
    first, later = _first_statement(kind)
    if first is None:
        return None
    filename, statement = first
    return failure_finding(
        failed,
        "device/unregistered-tensor",
        verdict=f"{kind.__name__}.__init__ assigns a module or tensor "
        f"{'before' if later else 'without'} super().__init__()",
        spot=Spot.of_node(filename, statement),
        why="nn.Module.__init__ creates the tables in which a module keeps its parameters, buffers "
        "and layers.",
        fix="Call super().__init__() as the first statement of __init__.",
        patch=None if later else diff_of(line_before(filename, statement, "super().__init__()")),
    )


def _first_statement(kind: type) -> tuple[tuple[str, ast.stmt] | None, bool]:
    """The first statement of the __init__ that ran, and whether it calls its parent's."""
    code = getattr(vars(kind).get("__init__"), "__code__", None)
    tree = tree_of(code.co_filename) if code is not None else None
    function = (
        function_at(code.co_firstlineno, tree) if code is not None and tree is not None else None
    )
    if code is None or not isinstance(function, ast.FunctionDef):
        return None, False
    later = any(
        isinstance(node, ast.Call) and last_name(node.func) == "__init__"
        for node in ast.walk(function)
    )
    first, *rest = function.body
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and bool(rest)
    return (code.co_filename, rest[0] if is_text else first), later
