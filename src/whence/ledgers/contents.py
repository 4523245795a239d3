"""The contents of a state: the name and shape of each tensor, and a few values to recognize it."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from whence.tape.readable import is_readable
from whence.tape.tape import storage_of

MOST_NAMES = 4_000
DEEPEST = 2
FEWEST_NUMBERS = 4
MOST_NUMBERS = 32
ALIKE = 1e-2
"""The tolerance of half-precision copies."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One tensor of a state. It may have been freed."""

    shape: tuple[int, ...]
    ref: weakref.ref[torch.Tensor]
    head: torch.Tensor | None
    """The first values; None where they cannot be read or are all equal, as in a new bias."""

    def is_like(self, other: Piece) -> bool:
        if self.head is None or other.head is None or self.shape != other.shape:
            return False
        return bool(
            torch.allclose(self.head, other.head, rtol=ALIKE, atol=ALIKE * float(self.head.std()))
        )


Contents = Mapping[str, Piece]


def tensors_of(module: nn.Module, prefix: str = "") -> dict[str, torch.Tensor]:
    """The tensors that a module saves and loads, by name, without running the program's code."""
    found: dict[str, torch.Tensor] = {}
    kept = {
        name: each
        for name, each in module._buffers.items()
        if name not in module._non_persistent_buffers_set
    }
    for name, tensor in (*module._parameters.items(), *kept.items()):
        if tensor is not None and not is_lazy(tensor):
            found[prefix + name] = tensor
    for name, child in module._modules.items():
        if child is not None:
            found |= tensors_of(child, f"{prefix}{name}.")
    return found


def contents_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, Piece]:
    return (
        {name: _piece(each) for name, each in tensors.items()} if len(tensors) <= MOST_NAMES else {}
    )


def states_in(thing: Any, depth: int = 0) -> Iterator[dict[str, Piece]]:
    """The model states in a checkpoint: mappings of names to tensors, nested or not.

    States of optimizers are skipped.
    """
    if isinstance(thing, nn.Module):
        yield contents_of(tensors_of(thing))
    elif isinstance(thing, Mapping) and not {"state", "param_groups"} <= thing.keys():
        entries = list(thing.items())
        named = {key: each for key, each in entries if isinstance(key, str) and _is_plain(each)}
        if named:
            yield contents_of(named)
        if depth < DEEPEST and len(entries) <= MOST_NAMES:
            for _, each in entries:
                yield from states_in(each, depth + 1)


def in_use(states: Iterable[Contents], held: Iterable[torch.Tensor]) -> bool:
    """Whether these tensors share memory with a state."""
    alive = [
        tensor
        for state in states
        for piece in state.values()
        if (tensor := piece.ref()) is not None
    ]
    return bool(({storage_of(each) for each in alive} - {0}) & {storage_of(each) for each in held})


def _is_plain(thing: Any) -> bool:
    return isinstance(thing, torch.Tensor) and not is_lazy(thing)


def _piece(tensor: torch.Tensor) -> Piece:
    return Piece(tuple(tensor.shape), weakref.ref(tensor), _head(tensor))


def _head(tensor: torch.Tensor) -> torch.Tensor | None:
    if not is_readable(tensor) or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return None
    if (
        not tensor.is_floating_point()
        or tensor.numel() < FEWEST_NUMBERS
        or not tensor.is_contiguous()
    ):
        return None
    head = tensor.detach().view(-1)[:MOST_NUMBERS].double()
    return head if float(head.std()) > 0 else None
