"""How the keys and shapes of a state match those of a module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from whence.ledgers.contents import MOST_NAMES, tensors_of

Shapes = Mapping[str, tuple[int, ...]]
HALF = 0.5
DEEPEST = 2


def shapes_of(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """The tensors that a module loads, by name."""
    return {name: tuple(each.shape) for name, each in tensors_of(module).items()}


def shapes_in(state: Mapping[Any, Any]) -> dict[str, tuple[int, ...]]:
    """The tensors of a state by name."""
    return {
        name: tuple(each.shape)
        for name, each in state.items()
        if isinstance(name, str) and isinstance(each, torch.Tensor) and not is_lazy(each)
    }


@dataclass(frozen=True, slots=True)
class Surplus:
    """An extra piece in the keys of one side, `module.`, and how many keys match without it."""

    piece: str
    leads: bool
    """Whether the keys start with it."""
    fitting: int
    is_only_one: bool
    """Whether no other piece matches as many."""

    def pairs(self, longer: Iterable[str], shorter: Container[str]) -> Iterator[tuple[str, str]]:
        """The keys that match without the piece, with and without it."""
        for name in longer:
            for piece, leads, rest in _shortened(name):
                if (piece, leads) == (self.piece, self.leads) and rest in shorter:
                    yield name, rest


def surplus(longer: Shapes, shorter: Shapes) -> Surplus | None:
    """The piece to remove from the longer keys so that at least half of the shorter ones match."""
    if len(longer) > MOST_NAMES or not shorter:
        return None
    counts: Counter[tuple[str, bool]] = Counter()
    for name, shape in longer.items():
        if shorter.get(name) == shape:
            continue
        for piece, leads, rest in _shortened(name):
            if shorter.get(rest) == shape:
                counts[piece, leads] += 1
    if not counts:
        return None
    ranked = counts.most_common(2)
    (piece, leads), fitting = ranked[0]
    if fitting < HALF * len(shorter):
        return None
    return Surplus(piece, leads, fitting, len(ranked) == 1 or ranked[1][1] < fitting)


def _shortened(name: str) -> Iterator[tuple[str, bool, str]]:
    parts = name.split(".")
    for start in range(len(parts)):
        for end in range(start + 1, len(parts)):
            yield (
                ".".join(parts[start:end]) + ".",
                start == 0,
                ".".join((*parts[:start], *parts[end:])),
            )


def fits(state: Mapping[Any, Any], wanted: Shapes) -> bool:
    """Whether a state is meant for these keys, apart from an extra piece."""
    given = shapes_in(state)
    exact = sum(given.get(name) == shape for name, shape in wanted.items())
    return exact >= max(HALF * len(wanted), 1) or surplus(given, wanted) is not None


def weights_in(
    state: Mapping[Any, Any], wanted: Shapes, depth: int = 0
) -> tuple[str, Shapes] | None:
    """The part of a checkpoint that fits, and the code to get it: `['net'].state_dict()`."""
    for key, part in state.items():
        if isinstance(part, nn.Module) and fits(dict(nn.Module.named_parameters(part)), wanted):
            return f"[{key!r}].state_dict()", shapes_of(part)
        if not isinstance(part, Mapping):
            continue
        if fits(part, wanted):
            return f"[{key!r}]", shapes_in(part)
        if depth < DEEPEST and (below := weights_in(part, wanted, depth + 1)) is not None:
            return f"[{key!r}]{below[0]}", below[1]
    return None


def renamed(given: Shapes, wanted: Shapes) -> list[tuple[str, str]]:
    """Layers with another name in the state, old and new, if nothing else differs."""
    old = _layers({name: shape for name, shape in given.items() if name not in wanted})
    new = _layers({name: shape for name, shape in wanted.items() if name not in given})
    if not new or len(old) != len(new) or list(old.values()) != list(new.values()):
        return []
    return list(dict.fromkeys(_without_common_end(*pair) for pair in zip(old, new, strict=True)))


def _layers(names: Shapes) -> dict[str, dict[str, tuple[int, ...]]]:
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in names.items():
        layer, _, last = name.rpartition(".")
        found.setdefault(layer, {})[last] = shape
    return found


def _without_common_end(old: str, new: str) -> tuple[str, str]:
    """Remove the common end: `body.0` and `encoder.0` become `body` and `encoder`."""
    one, other = old.split("."), new.split(".")
    while len(one) > 1 and len(other) > 1 and one[-1] == other[-1]:
        one.pop()
        other.pop()
    return ".".join(one), ".".join(other)
