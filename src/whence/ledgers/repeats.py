"""The ledger of repeats: containers whose elements all contain the same array.

If that array is rewritten for each element, all elements hold the last values written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from whence.ledgers.reaching import Alias, elements
from whence.lineage.datasets.asking import print_of
from whence.lineage.looking import is_array

FEWEST = 32
SAMPLED = 24
MOST_PARTS = 16
LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Repeat:
    """An array shared by all elements. It keeps nothing of the program alive."""

    alias: Alias
    kind: str
    length: int
    shape: tuple[int, ...]
    last: int
    """The identity of the last element."""
    content: Any


class RepeatLedger:
    """Filled by checks of user containers, some steps apart."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Repeat] = {}
        self.overwritten: list[Repeat] = []
        """Arrays whose values changed since the last check, while elements changed."""

    def look(self, alias: Alias, container: Any) -> None:
        held = elements(container) if not issubclass(type(container), dict) else []
        if len(held) < FEWEST:
            return
        for array in _in_all(held[:: len(held) // SAMPLED]):
            now = Repeat(
                alias,
                type(container).__name__,
                len(held),
                tuple(array.shape),
                id(held[-1]),
                print_of(array),
            )
            before = self._known.get((id(container), id(array)))
            self._known[id(container), id(array)] = now
            if before is not None and before.last != now.last and before.content != now.content:
                self.overwritten.append(now)


def _in_all(sample: list[Any]) -> list[Any]:
    """The arrays that all of these elements contain, if the elements are distinct."""
    if len({id(each) for each in sample}) < len(sample):
        return []
    common = {id(each): each for each in _arrays(sample[0])}
    for element in sample[1:]:
        if not common:
            break
        present = {id(each) for each in _arrays(element)}
        common = {key: each for key, each in common.items() if key in present}
    return list(common.values())


def _arrays(element: Any) -> Iterable[Any]:
    """The arrays that an element contains directly."""
    parts: list[Any] = []
    if isinstance(element, tuple | list):
        parts = list(element[:MOST_PARTS])
    elif type(element) is dict:
        parts = list(element.values())[:MOST_PARTS]
    elif hasattr(element, "__dict__") and not isinstance(element, type | torch.nn.Module):
        parts = list(vars(element).values())[:MOST_PARTS]
    return [each for each in parts if _is_data(each)]


def _is_data(thing: Any) -> bool:
    if isinstance(thing, torch.Tensor):
        return (
            type(thing) is torch.Tensor
            and not thing.requires_grad
            and thing.device.type == "cpu"
            and 0 < thing.numel() < LARGEST
        )
    return is_array(thing) and thing.dtype.kind in "iufb" and 0 < thing.size < LARGEST
