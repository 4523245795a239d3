"""PyTorch's own functions, as they were before the program could replace any of them.

In the program's process, Whence runs nothing else. A custom autograd Function, a compiled or
scripted module, a patched function, a library that replaces parts of PyTorch: all of them may have
state, print, or count. They run again only in a child process.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch
import torch.nn.functional

from whence.source.sites import is_own
from whence.tape.readable import PLAIN
from whence.torch_internals import OpOverload, OpOverloadPacket, make_subclass, nn_namespace

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
BUILT_IN = (MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)
"""The Python types of C functions, methods and properties."""
OWN_NAMESPACES = frozenset({"aten", "prims", "_c10d_functional"})

_is_child = False
"""True in a process that was forked to run the program's own code."""


def run_everything() -> None:
    """Allow the program's code to run in this process, which is a child made for that."""
    global _is_child
    _is_child = True
    program_ran()


@contextmanager
def running_everything() -> Iterator[None]:
    """Allow the program's code to run in this context: the user requested it (`whence check`)."""
    global _is_child
    before, _is_child = _is_child, True
    program_ran()
    try:
        yield
    finally:
        _is_child = before
        program_ran()


def is_child() -> bool:
    """Return whether this process was forked to run the program's own code."""
    return _is_child


def _namespaces() -> Iterator[tuple[str, Any]]:
    """Return the namespaces in which programs find, and replace, PyTorch's functions."""
    yield "torch", torch
    yield "torch.Tensor", torch.Tensor
    for name in ("nn.functional", "_tensor", "functional", "_VF", "linalg", "fft", "special"):
        module = sys.modules.get(f"torch.{name}")
        if module is not None:
            yield f"torch.{name}", module
    yield "C functions of torch.nn", nn_namespace


def _names_in(namespace: Any) -> dict[str, Any]:
    return vars(namespace) if isinstance(namespace, ModuleType | type) else {}


_original: dict[str, dict[str, Any]] = {name: dict(_names_in(each)) for name, each in _namespaces()}
_originals = {id(each) for names in _original.values() for each in names.values()}
_originals |= {id(make_subclass)}


_stand_ins: dict[int, tuple[Any, Any]] = {}
"""The program's replacements for PyTorch functions, by identity, each with the original."""


def original_of(func: Any) -> Any:
    """Return the PyTorch function that this one replaces; the same one if it replaces none.

    A PyTorch function written in Python passes itself to a mode under the name that it has in its
    module. If the program has replaced that name, the replacement is not what is running.
    """
    if id(func) in _originals or is_torchs_file(getattr(func, "__code__", None)):
        return func
    known = _stand_ins.get(id(func))
    if known is None or known[0] is not func:
        known = _stand_ins[id(func)] = func, _replaced_by(func)
    return known[1]


def _replaced_by(func: Any) -> Any:
    for namespace, each in _namespaces():
        now = _names_in(each)
        for name, thing in _original[namespace].items():
            if now.get(name) is func and thing is not func:
                return thing
    return func


def is_torchs_file(code: Any) -> bool:
    return isinstance(code, CodeType) and code.co_filename.startswith(TORCH_FOLDER)


def original_method(name: str) -> Callable[..., Any]:
    """Return the original method of `torch.Tensor`."""
    method: Callable[..., Any] = _original["torch.Tensor"][name]
    return method


def replaced_names() -> frozenset[str]:
    """Return the PyTorch names that are now bound to something else, except to our sensors."""
    found = set()
    for namespace, each in _namespaces():
        before, now = _original[namespace], _names_in(each)
        found |= {
            name
            for name, thing in before.items()
            if now.get(name) is not thing
            and callable(thing)
            and not _stands_for(now.get(name), thing)
        }
    return frozenset(found)


def _stands_for(thing: Any, original: Any) -> bool:
    """Return whether a thing is our sensor or PyTorch's own wrapper for the original.

    `torch._dynamo`, which every optimizer imports, wraps `manual_seed`.
    """
    code = getattr(thing, "__code__", None)
    if not isinstance(code, CodeType):
        return False
    wraps_it = (
        code.co_filename.startswith(TORCH_FOLDER)
        and getattr(thing, "__wrapped__", None) is original
    )
    return wraps_it or is_own(code.co_filename)


class Native:
    """Decide which functions may run here.

    A decision is valid until code of the program runs.
    """

    def __init__(self) -> None:
        self._replaced = frozenset[str]() if _is_child else replaced_names()
        self._known: dict[int, bool] = {}

    def __call__(self, func: Any) -> bool:
        """Return whether a function runs only PyTorch code."""
        if _is_child:
            return True
        if isinstance(func, functools.partial):
            return self(func.func)
        if isinstance(func, FunctionType):
            known = self._known.get(id(func))
            if known is None:
                known = self._known[id(func)] = self._is_torchs(func, set())
            return known
        if isinstance(func, (OpOverload, OpOverloadPacket)):
            named = getattr(func, "_qualified_op_name", None) or func._schema.name
            return str(named).partition("::")[0] in OWN_NAMESPACES
        if isinstance(func, BuiltinFunctionType):
            return _is_bound_to_torch(func)
        return isinstance(func, BUILT_IN) or any(func is each for each in CONSTRUCTORS)

    def _is_torchs(self, func: FunctionType, seen: set[CodeType]) -> bool:
        """Return whether a function, and everything that it calls, is part of PyTorch."""
        code = func.__code__
        if code in seen:
            return True
        seen.add(code)
        if not code.co_filename.startswith(TORCH_FOLDER) and not is_own(code.co_filename):
            return False
        if not self._replaced:
            return True
        if self._replaced & set(code.co_names):
            return False
        called = (func.__globals__.get(name) for name in code.co_names)
        return all(self._is_torchs(each, seen) for each in called if isinstance(each, FunctionType))


CONSTRUCTORS = (torch.nn.Parameter, torch.Size)


def _is_bound_to_torch(func: BuiltinFunctionType) -> bool:
    """Return whether a built-in is PyTorch's.

    A function of a C extension that the program brings belongs to the program.
    """
    owner = func.__self__
    if issubclass(type(owner), torch.Tensor):
        return type(owner) in PLAIN
    if id(func) in _originals:
        return True
    home = owner if isinstance(owner, type) else func
    home_name = owner.__name__ if isinstance(owner, ModuleType) else home.__module__
    return str(home_name).partition(".")[0] == "torch"


_judge: Native | None = None
"""Decisions since the program last ran."""


def program_ran() -> None:
    """Discard all decisions: the program may have replaced functions since."""
    global _judge
    _judge = None


def runs_only_torch(func: Any) -> bool:
    """Return whether a function runs only PyTorch code."""
    global _judge
    if _judge is None:
        _judge = Native()
    return _judge(func)


class NotNative(RuntimeError):
    """This function would run the program's code in the program's own process."""


def run_native(func: Any, args: Any, kwargs: Any) -> Any:
    """Run a PyTorch function; in a child process, any function."""
    if not runs_only_torch(func):
        raise NotNative(f"{getattr(func, '__name__', type(func).__name__)} is not PyTorch's own")
    return func(*args, **kwargs)
