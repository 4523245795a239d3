"""Memory that nobody has written to yet: NaN that lies there by chance is nobody's doing. In a child process it is zero."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

ZEROED = {"empty": "zeros", "empty_like": "zeros_like"}


@contextmanager
def zeroed_memory() -> Iterator[None]:
    """While it lasts, `np.empty` and its like give zeros."""
    owners = [each for each in (sys.modules.get("numpy"), torch) if each is not None]
    patched = [(owner, name, getattr(owner, name)) for owner in owners for name in ZEROED]
    for owner, name, blank in patched:
        setattr(owner, name, _zeroed(blank, getattr(owner, ZEROED[name])))
    try:
        yield
    finally:
        for owner, name, blank in patched:
            setattr(owner, name, blank)


def _zeroed(blank: Callable[..., Any], zeros: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:
        try:
            return zeros(*args, **kwargs)
        except TypeError:
            # An argument that only the other one has.
            return blank(*args, **kwargs)

    return made
