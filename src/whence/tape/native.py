"""PyTorch's own functions, as they were before the program could replace any of them.

In the program's process Whence runs nothing but these. A custom autograd Function, a compiled or
scripted module, a patched function, a library that replaces parts of PyTorch: all of them may have
state, print, or count, and run again only in a child process.
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
"""What C functions, methods and properties look like from Python."""
OWN_NAMESPACES = frozenset({"aten", "prims", "_c10d_functional"})

_is_child = False
"""True in a process that was forked so that the program's own code can run in it."""


def run_everything() -> None:
    """Allow all code of the program in this process: it is a child made for that."""
    global _is_child
    _is_child = True
    program_ran()


@contextmanager
def running_everything() -> Iterator[None]:
    """Allow all code of the program within: the user has asked for it to be run (`whence check`)."""
    global _is_child
    before, _is_child = _is_child, True
    program_ran()
    try:
        yield
    finally:
        _is_child = before
        program_ran()


def is_child() -> bool:
    """Tell whether this process was forked so that the program's own code can run in it."""
    return _is_child


def _namespaces() -> Iterator[tuple[str, Any]]:
    """Where programs find, and replace, what PyTorch computes with."""
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
"""Functions that the program has put in the place of PyTorch's, by identity, each with the one it stands for."""


def original_of(func: Any) -> Any:
    """PyTorch's function in whose place the program has put this one; the same function if there is none.

    A function of PyTorch's that is written in Python hands itself to a mode under the name that it
    has in its module. What the program has put there is not what is running.
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
    """A method of `torch.Tensor`, as it was."""
    method: Callable[..., Any] = _original["torch.Tensor"][name]
    return method


def replaced_names() -> frozenset[str]:
    """Names of PyTorch's that stand for something else now, sensors of ours apart."""
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
    """A sensor of ours, or PyTorch's own wrapper: `torch._dynamo`, which every optimizer imports, has one for `manual_seed`."""
    code = getattr(thing, "__code__", None)
    if not isinstance(code, CodeType):
        return False
    wraps_it = (
        code.co_filename.startswith(TORCH_FOLDER)
        and getattr(thing, "__wrapped__", None) is original
    )
    return wraps_it or is_own(code.co_filename)


class Native:
    """Which functions may run here. A judgement holds as long as no code of the program runs."""

    def __init__(self) -> None:
        self._replaced = frozenset[str]() if _is_child else replaced_names()
        self._known: dict[int, bool] = {}

    def __call__(self, func: Any) -> bool:
        """Whether running a function runs nothing but PyTorch."""
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
        """Written in PyTorch, and so is everything that it calls."""
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
    """A function of an extension that the program brings is the program's, though it is not Python."""
    owner = func.__self__
    if issubclass(type(owner), torch.Tensor):
        return type(owner) in PLAIN
    if id(func) in _originals:
        return True
    home = owner if isinstance(owner, type) else func
    home_name = owner.__name__ if isinstance(owner, ModuleType) else home.__module__
    return str(home_name).partition(".")[0] == "torch"


_judge: Native | None = None
"""What is known of functions since the program ran last."""


def program_ran() -> None:
    """The program may have replaced functions since: judge them again when somebody asks."""
    global _judge
    _judge = None


def runs_only_torch(func: Any) -> bool:
    """Tell whether running a function runs nothing but PyTorch."""
    global _judge
    if _judge is None:
        _judge = Native()
    return _judge(func)


class NotNative(RuntimeError):
    """Running this function would run code of the program in the program's own process."""


def run_native(func: Any, args: Any, kwargs: Any) -> Any:
    """Run one of PyTorch's own functions; in a child process, any."""
    if not runs_only_torch(func):
        raise NotNative(f"{getattr(func, '__name__', type(func).__name__)} is not PyTorch's own")
    return func(*args, **kwargs)
