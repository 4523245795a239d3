"""Numbers that never became a tensor where one is needed: a NumPy array, a list, a float.

Reported by shape/wrong-container, which documents it.
"""

from __future__ import annotations

import ast
import inspect
from typing import Any

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.lineage.grounds import ground_of
from whence.lineage.looking import Unknown, is_array, look
from whence.rules.dtype.object_array import MAKERS
from whence.rules.refusals import refusing
from whence.rules.telling import describe, failure_finding
from whence.source.edits import diff_of, insert_after, insert_before
from whence.source.spots import Spot
from whence.source.statements import import_of
from whence.tape.failed import FailedCall
from whence.tape.replay import leaving_no_trace
from whence.tape.tape import map_leaves

Where = int | str
"""The place of an argument: its position, or its name."""
COMPLAINTS = (TypeError, AttributeError)


def untensored(failed: FailedCall) -> Finding | None:
    return _refused_buffer(failed) or _refused_argument(failed)


def _refused_buffer(failed: FailedCall) -> Finding | None:
    """A buffer that a PyTorch layer registers in its constructor: class weights in a list."""
    names = refusing(failed, nn.Module, "register_buffer")
    if names is None or not _is_of_numbers(names.get("tensor")):
        return None
    name, thing, kind = names["name"], names["tensor"], _kind(names["tensor"])
    node = _written(failed, name, thing)
    layer, end = type(names["self"]).__name__, f", dtype={torch.get_default_dtype()})"
    filename = failed.site.filename if failed.site is not None else ""
    direct = node is not None and failed.site is not None and not failed.site.is_indirect
    return failure_finding(
        failed,
        "shape/wrong-container",
        verdict=f"{layer} needs a tensor for '{name}', got {kind}",
        spot=Spot.of_node(filename, node) if node is not None else None,
        why=f"PyTorch does not convert {kind} to a tensor here.",
        fix=f"Convert '{name}' to a tensor: torch.as_tensor(...{end}.",
        patch=_around(filename, node, end) if direct and node is not None else None,
        operands=(Operand("given", describe(thing)),),
    )


def _refused_argument(failed: FailedCall) -> Finding | None:
    if (
        not isinstance(failed.exception, COMPLAINTS)
        or failed.name in MAKERS
        or not _is_torchs(failed.func)
    ):
        return None
    if any(type(each) not in (torch.Tensor, nn.Parameter) for each in failed.tensors()):
        # A subclass would run the program's code.
        return None
    given: list[tuple[Where, Any]] = [*enumerate(failed.args), *failed.kwargs.items()]
    for where, thing in given:
        if not _is_of_numbers(thing) or not _is_what_was_refused(failed, where):
            continue
        name, kind = _name(failed, where), _kind(thing)
        node = _written(failed, where, thing)
        return failure_finding(
            failed,
            "shape/wrong-container",
            verdict=f"{failed.name} needs a tensor for {name}, got {kind}",
            spot=Spot.of_node(failed.site.filename, node)
            if failed.site is not None and node is not None
            else None,
            why=f"PyTorch does not convert {kind} to a tensor here.",
            fix=f"Convert {name} to a tensor: torch.as_tensor(...{_with_type(failed, thing)}).",
            patch=_patch(failed, thing, node),
            counterfactual=f"with a tensor of the same values {failed.name} does not raise "
            f"{type(failed.exception).__name__}",
            operands=(Operand("given", describe(thing)),),
        )
    return None


def _is_torchs(func: Any) -> bool:
    """Whether PyTorch defines the function, so that no user code runs with it."""
    owner = (
        getattr(func, "__module__", None)
        or getattr(getattr(func, "__objclass__", None), "__module__", None)
        or ""
    )
    return not isinstance(func, nn.Module) and callable(func) and owner.split(".")[0] == "torch"


def _is_number(thing: Any) -> bool:
    if isinstance(thing, int | float):
        return not isinstance(thing, bool)
    return type(thing).__module__ == "numpy" and getattr(thing, "ndim", 1) == 0


def _is_of_numbers(thing: Any) -> bool:
    if is_array(thing):
        return thing.dtype.kind in "fiub"
    if isinstance(thing, list | tuple):
        return bool(thing) and all(_is_number(each) for each in thing)
    return _is_number(thing)


def _is_what_was_refused(failed: FailedCall, where: Where) -> bool:
    """Whether the call raises the same on meta tensors, and not with a tensor for this argument."""
    return (
        isinstance(_outcome(failed, None), type(failed.exception))
        and _outcome(failed, where) is None
    )


def _outcome(failed: FailedCall, where: Where | None) -> Exception | None:
    """The error on meta tensors, with one argument and all arrays converted to tensors."""

    def put(at: Where, thing: Any) -> Any:
        if where is not None and (at == where or is_array(thing)):
            return torch.as_tensor(thing, dtype=_type_for(failed, thing)).to("meta")
        return map_leaves(
            lambda each: each.to("meta") if isinstance(each, torch.Tensor) else each, thing
        )

    with leaving_no_trace():
        try:
            failed.func(
                *(put(at, each) for at, each in enumerate(failed.args)),
                **{at: put(at, each) for at, each in failed.kwargs.items()},
            )
        except Exception as error:
            return error
    return None


def _name(failed: FailedCall, where: Where) -> str:
    if isinstance(where, str):
        return f"'{where}'"
    try:
        return f"'{list(inspect.signature(failed.func).parameters)[where]}'"
    except (TypeError, ValueError, IndexError):
        return "its input" if where == 0 else f"argument {where + 1}"


def _kind(thing: Any) -> str:
    if is_array(thing):
        return "a NumPy array"
    whose = "NumPy " if type(thing).__module__ == "numpy" else ""
    return f"a {whose}{type(thing).__name__}" + (
        " of numbers" if isinstance(thing, list | tuple) else ""
    )


def _type_for(failed: FailedCall, thing: Any) -> torch.dtype | None:
    """The other operands' dtype for floats, since NumPy's and Python's floats are wider."""
    made = torch.as_tensor(thing)
    others = {each.dtype for each in failed.tensors() if each.is_floating_point()}
    return (
        next(iter(others))
        if len(others) == 1 and made.is_floating_point() and made.dtype not in others
        else None
    )


def _with_type(failed: FailedCall, thing: Any) -> str:
    dtype = _type_for(failed, thing)
    return f", dtype={dtype}" if dtype is not None else ""


def _written(failed: FailedCall, where: Where, thing: Any) -> ast.expr | None:
    """The expression in the failing line with this value, or at its place in the same call."""
    node = failed.site.node() if failed.site is not None else None
    ground = ground_of(failed.call.stack, failed.frames)
    if not isinstance(node, ast.Call):
        return None
    given: dict[Where, ast.expr] = {
        **dict(enumerate(node.args)),
        **{each.arg: each.value for each in node.keywords if each.arg is not None},
    }
    for each in given.values():
        if ground is not None and ground.frame is not None and _is_it(each, thing, ground.frame):
            return each
    if isinstance(where, str) and where in given:
        return given[where]
    name = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    )
    same = (
        name == failed.name
        and failed.scope is None
        and not any(isinstance(each, ast.Starred) for each in node.args)
    )
    return given.get(where) if same else None


def _is_it(node: ast.expr, thing: Any, frame: Any) -> bool:
    try:
        return look(node, frame) is thing
    except Unknown:
        return False


def _patch(failed: FailedCall, thing: Any, node: ast.expr | None) -> str | None:
    """Convert the argument to a tensor where it is written."""
    arrays = [
        each
        for each in (*failed.args, *failed.kwargs.values())
        if is_array(each) and each is not thing
    ]
    if node is None or failed.site is None or failed.site.is_indirect or arrays:
        return None
    return _around(failed.site.filename, node, f"{_with_type(failed, thing)})")


def _around(filename: str, node: ast.expr, end: str) -> str | None:
    return diff_of(
        *import_of(filename, "torch"),
        insert_before(filename, node, "torch.as_tensor("),
        insert_after(filename, node, end),
    )
