"""Objects that the program can reach by a name, and what its hooks have closed over."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from whence.source.sites import Site, is_library, variables

FEW = 16
MANY = 64
DEEPEST = 3
MOST_VISITED = 20_000
MOST_MODULES = 2_000
CONTAINERS = (list, deque, dict)
LIBRARIES = (
    "builtins",
    "collections",
    "torch.utils",
    "torch.optim",
    "numpy",
    "whence",
    "types",
    "logging",
)
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass(frozen=True, slots=True)
class Alias:
    """A name that the program has for an object."""

    name: str
    """As the program writes it: `losses`, `self.history`."""
    code: CodeType | None
    """The code that has the variable."""
    owners: tuple[str, ...] = ()
    """The class of the attribute's object and its base classes; empty for a variable."""


Named = tuple[Alias, Any, int]
"""A named object, and the depth at which it was found."""


def reachable(
    frames: list[FrameType], sites: list[Site], skip: set[int], models: Iterable[nn.Module]
) -> Iterator[tuple[Alias, Any]]:
    """Containers and tensors in variables and in attributes, with all names of each container."""
    models = list(models)
    pending: deque[Named] = deque(_variables(frames, sites))
    pending += [(Alias("", None, _kinds(each)), each, 0) for each in models]
    pending += [(Alias("", None), hook, 1) for each in models for hook in _hooks_below(each)]
    visited: set[int] = set()
    while pending and len(visited) < MOST_VISITED:
        alias, thing, depth = pending.popleft()
        if issubclass(type(thing), torch.Tensor):
            if not issubclass(type(thing), nn.Parameter):
                yield alias, thing
            continue
        is_container = issubclass(type(thing), CONTAINERS) and (
            _is_plain(type(thing)) or _is_programs(type(thing))
        )
        if id(thing) in visited or id(thing) in skip:
            if is_container and id(thing) not in skip:
                yield alias, thing
            continue
        visited.add(id(thing))
        if type(thing) in (list, tuple) and len(thing) < FEW and depth < DEEPEST:
            inside = [
                (n, each) for n, each in enumerate(thing) if issubclass(type(each), torch.Tensor)
            ]
            pending += [(_entry(alias, n), each, depth + 1) for n, each in inside]
        if is_container:
            yield alias, thing
            if issubclass(type(thing), dict) and dict.__len__(thing) < MANY and depth < DEEPEST:
                own = alias if _is_plain(type(thing)) else Alias("self", alias.code, _kinds(thing))
                pending += [(_entry(own, key), each, depth + 1) for key, each in dict.items(thing)]
        # A mock claims by `__class__` that it is a function.
        if type(thing) in (FunctionType, MethodType, partial):
            pending += [(name, each, depth) for name, each in _closed_over(thing)]
        elif depth < DEEPEST:
            kinds = _kinds(thing)
            pending += [
                (Alias(f"self.{key}", alias.code, kinds), each, depth + 1)
                for key, each in _attributes(thing).items()
            ]


def _variables(frames: list[FrameType], sites: list[Site]) -> Iterator[Named]:
    scopes: list[tuple[CodeType, dict[str, Any]]] = [
        (frame.f_code, variables(frame)) for frame in frames
    ]
    known: set[int] = set()
    places: list[FrameType | Site] = [*frames, *sites]
    for each in places:
        if id(each.f_globals) not in known:
            known.add(id(each.f_globals))
            scopes.append((each.f_code, each.f_globals))
    for code, names in scopes:
        for name, thing in list(names.items()):
            if not name.startswith("__"):
                yield Alias(name, code), thing, 0


def _entry(alias: Alias, key: Any) -> Alias:
    shown = (
        repr(key)
        if type(key) in (str, int, float, bool, bytes, type(None))
        else f"<{type(key).__name__}>"
    )
    return Alias(f"{alias.name}[{shown}]", alias.code, alias.owners)


def elements(container: Any) -> list[Any]:
    """The elements of a list or deque, or a dict's values, bypassing overridden methods."""
    if issubclass(type(container), dict):
        return list(dict.values(container))
    return list((deque if issubclass(type(container), deque) else list).__iter__(container))


def parts(thing: Any) -> list[Any]:
    """The parts of a small record: a tuple, a list, a dict, or an object of the program."""
    kind = type(thing)
    if issubclass(kind, tuple):
        held = list(tuple.__iter__(thing))
    elif issubclass(kind, list | dict):
        held = elements(thing)
    else:
        held = list(_attributes(thing).values()) if _is_programs(kind) else []
    return held if len(held) < FEW else []


def _is_plain(kind: type) -> bool:
    return kind.__module__ in ("builtins", "collections")


def _is_programs(kind: type) -> bool:
    path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return path is not None and not is_library(path)


def _kinds(thing: Any) -> tuple[str, ...]:
    return tuple(
        each.__name__
        for each in type(thing).__mro__
        if not each.__module__.startswith(("builtins", "torch."))
    )


def _closed_over(thing: FunctionType | MethodType | partial[Any]) -> Iterator[tuple[Alias, Any]]:
    """What the program's function carries: closure variables, bound object, partial arguments."""
    if isinstance(thing, MethodType):
        yield Alias("", None, _kinds(thing.__self__)), thing.__self__
        yield from _closed_over(thing.__func__) if isinstance(thing.__func__, FunctionType) else ()
    elif isinstance(thing, partial):
        code = thing.func.__code__ if isinstance(thing.func, FunctionType) else None
        named = dict(zip(code.co_varnames, thing.args, strict=False)) if code is not None else {}
        yield from ((Alias(name, code), each) for name, each in (named | thing.keywords).items())
        yield from (
            _closed_over(thing.func) if isinstance(thing.func, FunctionType | MethodType) else ()
        )
    elif thing.__closure__ and not is_library(thing.__code__.co_filename):
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__, strict=True):
            try:
                yield Alias(name, thing.__code__), cell.cell_contents
            except ValueError:
                # Not bound yet.
                continue


def _hooks_below(model: nn.Module) -> Iterator[Any]:
    pending, count = [model], 0
    while pending and count < MOST_MODULES:
        module, count = pending.pop(), count + 1
        for name in HOOKS:
            yield from list(vars(module).get(name, {}).values())
        pending += [each for each in module._modules.values() if each is not None]


def _attributes(thing: Any) -> dict[str, Any]:
    """The attributes of a user-defined object, without running its code; {} for a library's."""
    kind = type(thing)
    if issubclass(kind, type) or kind.__module__.startswith(LIBRARIES):
        return {}
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return dict(found) if type(found) is dict else {}
