"""Inspect a program without a trace: random state, grad mode, warnings and hooks stay the same."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from whence.devices import random_state, restore_random_state
from whence.torch_internals import may_have_saved_tensor_hooks, set_grad_enabled

SILENT: list[Any] = [("ignore", None, Warning, None, 0)]

_open: list[Untouched] = []
"""States to restore, even if Ctrl-C arrives between two lines of the restoring code."""


class Untouched:
    """A context in which PyTorch's own operations run on copies.

    Their warnings are not shown. `catch_warnings` would make Python forget which warnings it has
    shown, and show the program's again.
    """

    __slots__ = ("_filters", "_grad", "_hooks", "_random", "_with_gradients")

    def __init__(self, *, gradients: bool) -> None:
        self._with_gradients = gradients
        self._hooks: saved_tensors_hooks | None = None

    def __enter__(self) -> None:
        self._filters = warnings.filters
        self._grad = torch.is_grad_enabled()
        self._random = random_state()
        _open.append(self)
        warnings.filters = SILENT
        set_grad_enabled(self._with_gradients)
        if may_have_saved_tensor_hooks():
            # Only the innermost hooks apply: this keeps the program's hooks out of our graphs.
            hooks = saved_tensors_hooks(_as_it_is, _as_it_is)
            hooks.__enter__()
            self._hooks = hooks

    def __exit__(self, *_: object) -> None:
        self.restore()
        if _open and _open[-1] is self:
            _open.pop()

    def restore(self) -> None:
        warnings.filters = self._filters
        set_grad_enabled(self._grad)
        restore_random_state(self._random)
        hooks, self._hooks = self._hooks, None
        if hooks is not None:
            hooks.__exit__()


def restore_all() -> None:
    """Restore what an interrupted check has left changed."""
    while _open:
        _open.pop().restore()


def _as_it_is(thing: Any) -> Any:
    return thing


@contextmanager
def quiet_warnings() -> Iterator[None]:
    """Show no warnings."""
    filters = warnings.filters
    warnings.filters = SILENT
    try:
        yield
    finally:
        warnings.filters = filters
