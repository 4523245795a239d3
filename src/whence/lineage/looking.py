"""Looking at live objects without running anything of theirs."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections import ChainMap
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from pure_eval import CannotEval, Evaluator
from torch import nn

from whence.source.blocks import dotted
from whence.source.definitions import class_of_method, own_nodes
from whence.source.sites import Site, variables
from whence.source.text import function_node


class Unknown(Exception):
    """It cannot be known without running code of the program."""


def look(node: ast.expr, frame: FrameType) -> Any:
    """The value of an expression in a live frame, if finding it runs no code of the program."""
    return _evaluated(
        node, Evaluator(ChainMap(variables(frame), frame.f_globals, frame.f_builtins))
    )


def look_among(node: ast.expr, names: dict[str, Any]) -> Any:
    """The same, where the values of names are known and no frame is left that had them."""
    return _evaluated(node, Evaluator(names))


def _evaluated(node: ast.expr, known: Evaluator) -> Any:
    try:
        return known[node]
    except CannotEval:
        pass
    except Exception as error:
        raise Unknown from error
    match node:
        case ast.Attribute(value=value, attr=name):
            return attribute(_evaluated(value, known), name)
        case ast.Subscript(value=value, slice=ast.JoinedStr() as key):
            return _entry(_evaluated(value, known), _text(key, known))
    raise Unknown


def _text(node: ast.JoinedStr, known: Evaluator) -> str:
    """`f"layer{i}"`, of numbers and words."""
    parts = []
    for each in node.values:
        plain = (
            each.value
            if isinstance(each, ast.FormattedValue) and each.format_spec is None
            else each
        )
        value = _evaluated(plain, known)
        if type(value) not in (int, str) or getattr(each, "conversion", -1) != -1:
            raise Unknown
        parts.append(str(value))
    return "".join(parts)


def _entry(table: Any, key: str) -> Any:
    if type(table) is dict and key in table:
        return table[key]
    raise Unknown


def attribute(owner: Any, name: str) -> Any:
    """An attribute, read without descriptors or `__getattr__`; parameters, buffers and submodules count as attributes."""
    if isinstance(owner, nn.Module):
        for held in (vars(owner), owner._parameters, owner._buffers, owner._modules):
            if name in held:
                return held[name]
    if isinstance(owner, torch.Tensor) and name in ("shape", "dtype", "device", "requires_grad"):
        return getattr(owner, name)
    try:
        return vars(owner)[name]
    except (TypeError, KeyError):
        pass
    found = inspect.getattr_static(owner, name, Unknown)
    if isinstance(found, staticmethod):
        return found.__func__
    if found is Unknown or (hasattr(type(found), "__get__") and not callable(found)):
        raise Unknown
    return found


def is_array(thing: Any) -> bool:
    """True for a numpy array, in memory or in a mapped file, without importing numpy."""
    return type(thing).__module__ == "numpy" and type(thing).__name__ in ("ndarray", "memmap")


def picture_shape(thing: Any) -> tuple[int, ...] | None:
    """The shape that a picture of PIL's has as an array, without importing PIL."""
    if not type(thing).__module__.startswith("PIL."):
        return None
    size, bands = getattr(thing, "size", None), getattr(thing, "getbands", None)
    if not isinstance(size, tuple) or bands is None:
        return None
    count = len(bands())
    return (size[1], size[0], count) if count > 1 else (size[1], size[0])


def same_object(one: Any, other: Any) -> bool:
    """True if both are the same object, or views of the same memory from its beginning."""
    if one is other:
        return True
    if is_array(one) and is_array(other):
        return bool(one.ctypes.data == other.ctypes.data and one.shape == other.shape and one.size)
    return False


def names_of(thing: Any, frames: list[FrameType]) -> Iterator[tuple[str, FrameType]]:
    """The variables of the program that hold this very object now."""
    seen: set[int] = set()
    for frame in frames:
        for names in (variables(frame), frame.f_globals):
            if names is frame.f_globals and id(names) in seen:
                continue
            seen.add(id(names))
            for name, value in list(names.items()):
                if not name.startswith("__") and same_object(value, thing):
                    yield name, frame


def words_for(thing: Any, frame: FrameType) -> Iterator[str]:
    """How the function of a frame writes this very object, or could: `model`, `self.model`."""
    scope = function_node(Site.of(frame)) or ast.Module([], [])
    names = (each for each in own_nodes(scope) if isinstance(each, ast.Name | ast.Attribute))
    found = {text: each for each in names if (text := dotted(each)) is not None}
    for text, node in found.items():
        with contextlib.suppress(Unknown):
            if look(node, frame) is thing:
                yield text
    code = frame.f_code
    owner = code.co_varnames[0] if code.co_argcount and class_of_method(scope) is not None else None
    own = variables(frame).get(owner) if owner is not None else None
    held = getattr(own, "__dict__", {})
    yield from (f"{owner}.{name}" for name, each in held.items() if each is thing)


MOST_ENTRIES = 64


def holders_of(thing: Any, frames: list[FrameType]) -> Iterator[tuple[str, FrameType, Any]]:
    """The local variables of functions with a tuple, a list or a dict in which this very object stands, and its place there."""
    for frame in frames:
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED == 0:
            continue
        for name, value in variables(frame).items():
            if type(value) in (tuple, list, dict) and len(value) <= MOST_ENTRIES:
                for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                    if each is thing:
                        yield name, frame, key
