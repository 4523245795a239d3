"""Looking at a program leaves no trace: random numbers, grad mode, warnings and hooks are as before."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from whence.devices import random_state, restore_random_state

SILENT: list[Any] = [("ignore", None, Warning, None, 0)]

_open: list[Untouched] = []
"""States that are to be restored, also where Ctrl-C comes between two lines of the restoring."""


class Untouched:
    """A context within which PyTorch's own operations run on copies.

    No warning of theirs is shown. `catch_warnings` would make Python forget which ones it has shown,
    and show the program's again.
    """

    __slots__ = ("_filters", "_grad", "_hooked", "_random", "_with_gradients")

    def __init__(self, *, gradients: bool) -> None:
        self._with_gradients = gradients
        self._hooked = False

    def __enter__(self) -> None:
        self._filters = warnings.filters
        self._grad = torch.is_grad_enabled()
        self._random = random_state()
        _open.append(self)
        warnings.filters = SILENT
        torch._C._set_grad_enabled(self._with_gradients)
        if has_saved_tensor_hooks():
            # Of several hooks the innermost is asked: the program's are kept out of graphs of ours.
            torch._C._autograd._push_saved_tensors_default_hooks(_as_it_is, _as_it_is)
            self._hooked = True

    def __exit__(self, *_: object) -> None:
        self.restore()
        if _open and _open[-1] is self:
            _open.pop()

    def restore(self) -> None:
        warnings.filters = self._filters
        torch._C._set_grad_enabled(self._grad)
        restore_random_state(self._random)
        if self._hooked:
            self._hooked = False
            torch._C._autograd._pop_saved_tensors_default_hooks()


def restore_all() -> None:
    """Restore what an interrupted look has left changed."""
    while _open:
        _open.pop().restore()


def has_saved_tensor_hooks() -> bool:
    """Tell whether the program packs what autograd saves. Where PyTorch does not say so: perhaps."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    if top is None:
        return bool(torch._C._autograd._saved_tensors_hooks_is_enabled())  # type: ignore[attr-defined]
    return top(False) is not None


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
