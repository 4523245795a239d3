"""Trials: run one call of the tape again with a change, and inspect the result.

On the meta device a trial computes shapes and types only: no memory, no arithmetic, no random
numbers. On copies it computes values. Neither touches a tensor of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from whence.tape.native import run_native
from whence.tape.quiet import Untouched
from whence.tape.readable import is_readable
from whence.tape.tape import Call, Foreign, Value, flatten, map_leaves

Shape = tuple[int, ...]


class CannotTry(Exception):
    """The call has an operand that cannot be replaced by a stand-in."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a trial, or the exception it raised."""

    result: Any = None
    exception: Exception | None = None

    @property
    def ran(self) -> bool:
        return self.exception is None

    def shapes(self) -> list[Shape]:
        return [
            tuple(each.shape) for each in flatten(self.result) if isinstance(each, torch.Tensor)
        ]


def aside() -> Untouched:
    """Run PyTorch's own operations without gradients, and leave everything as it was."""
    return Untouched(gradients=False)


def _attempt(func: Callable[..., Any], args: Any, kwargs: Any) -> Outcome:
    with aside():
        try:
            return Outcome(result=run_native(func, args, kwargs))
        except Exception as exception:
            return Outcome(exception=exception.with_traceback(None))


def try_shapes(
    call: Call,
    shapes: Mapping[Value, Shape] | None = None,
    dtypes: Mapping[Value, torch.dtype] | None = None,
) -> Outcome:
    """Run a call on stand-ins without data, some of them with another shape or type."""
    shapes, dtypes = shapes or {}, dtypes or {}
    if call.name == "lstm" and any(value is not call.operands[0] for value in shapes):
        # Without data, PyTorch's LSTM does not check its state against its weights, and crashes.
        return Outcome(exception=CannotTry("the state of an LSTM"))

    def replace(thing: Any) -> Any:
        if isinstance(thing, Value):
            return torch.empty(
                shapes.get(thing, thing.shape), dtype=dtypes.get(thing, thing.dtype), device="meta"
            )
        if isinstance(thing, Foreign):
            raise CannotTry(thing.description)
        return thing

    try:
        args, kwargs = map_leaves(replace, call.args), map_leaves(replace, call.kwargs)
    except CannotTry as reason:
        return Outcome(exception=reason)
    kwargs = {
        key: torch.device("meta") if key == "device" and each is not None else each
        for key, each in kwargs.items()
    }
    owner = getattr(call.func, "__self__", None)
    if isinstance(owner, torch.Tensor):
        # A bound method holds its tensor's data, and would fail on stand-ins for that reason alone.
        method = getattr(torch.Tensor, call.func.__name__)
        return _attempt(method, (torch.empty_like(owner, device="meta"), *args), kwargs)
    return _attempt(call.func, args, kwargs)


def try_values(
    func: Callable[..., Any],
    args: Any,
    kwargs: Any,
    change: Callable[[torch.Tensor], torch.Tensor] = lambda each: each,
) -> Outcome:
    """Run a call on copies of its live operands, each passed through `change` first.

    `change` must not work in place.
    """

    def replace(thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor):
            return thing
        if not is_readable(thing):
            raise CannotTry("a tensor whose values cannot be read")
        return change(thing).detach().clone()

    with aside():
        try:
            args, kwargs = map_leaves(replace, args), map_leaves(replace, kwargs)
        except Exception as exception:
            return Outcome(exception=exception.with_traceback(None))
    return _attempt(func, args, kwargs)
