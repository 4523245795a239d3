"""Handles: the variable, and the keys in it, that lead to the same tensor in every step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from whence.source.sites import variables

DEEPEST = 3
MOST_ENTRIES = 256
CLOSED = (torch.Tensor, nn.Module, torch.optim.Optimizer, type, ModuleType)
PLAIN = frozenset({str, int, float, bool, bytes, complex, type(None), FunctionType, ModuleType})
"""Types that are not tensors and hold none."""


@dataclass(frozen=True, slots=True)
class Handle:
    code: CodeType
    name: str
    path: tuple[Any, ...] = ()
    """Keys, positions and attribute names, from the variable to the tensor."""

    @property
    def text(self) -> str:
        return self.name + "".join(f"[{each!r}]" for each in self.path)

    def follow(self, frames: Iterable[FrameType]) -> torch.Tensor | None:
        """Return the tensor that is there now."""
        frame = next((each for each in frames if each.f_code is self.code), None)
        thing = variables(frame).get(self.name) if frame is not None else None
        for key in self.path:
            thing = next((each for known, each in _entries(thing) if known == key), None)
        return thing if isinstance(thing, torch.Tensor) else None


def handles_in(frame: FrameType) -> Iterator[tuple[Handle, torch.Tensor]]:
    """Return the tensors that a frame's variables hold, those held directly first."""
    names = variables(frame).items()
    level: list[tuple[Handle, Any]] = [
        (Handle(frame.f_code, name), each) for name, each in names if type(each) not in PLAIN
    ]
    for _ in range(DEEPEST + 1):
        yield from ((handle, thing) for handle, thing in level if isinstance(thing, torch.Tensor))
        level = [
            (Handle(handle.code, handle.name, (*handle.path, key)), each)
            for handle, thing in level
            for key, each in _entries(thing)
        ][:MOST_ENTRIES]


def _entries(thing: Any) -> Iterable[tuple[Any, Any]]:
    """Return the entries of a container, or the relevant attributes of an object."""
    found: Iterable[tuple[Any, Any]]
    if isinstance(thing, CLOSED):
        return ()
    if isinstance(thing, Mapping):
        found = thing.items() if type(thing).__module__ in ("builtins", "collections") else ()
    elif isinstance(thing, Sequence):
        found = enumerate(thing) if isinstance(thing, list | tuple) else ()
    elif not hasattr(thing, "__dict__") or callable(thing):
        found = ()
    else:
        found = vars(thing).items()
    return [(key, each) for key, each in islice(found, MOST_ENTRIES) if type(each) not in PLAIN]
