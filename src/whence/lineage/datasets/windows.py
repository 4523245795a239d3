"""Windows that slide over a series, and a target that lies within its own window: a few neighbours are fetched and compared.

Runs the program's code: only ever in a child process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from whence.lineage.datasets.pairing import numbers_of, parts_of
from whence.lineage.datasets.preparing import innermost
from whence.lineage.lines import LineWatch
from whence.lineage.properties import Property
from whence.source.spots import Spot

NEIGHBOURS = 16
SHORTEST = 4
MOST_APART = 8


@dataclass(frozen=True, slots=True)
class Within:
    """Plain data: it comes from a child process."""

    spot: Spot | None
    window: str
    target: str
    place: int
    length: int


def target_within(dataset: Any) -> Within | None:
    dataset = innermost(dataset)
    first = (len(dataset) - NEIGHBOURS) // 2
    if first < 0:
        return None
    parts = [parts_of(dataset[each]) for each in range(first, first + NEIGHBOURS)]
    if any(each.keys() != parts[0].keys() or None in each.values() for each in parts):
        return None
    columns = {name: [each[name] for each in parts] for name in parts[0]}
    for window, inputs in columns.items():
        for target, wanted in columns.items() if _slide(inputs) else ():
            place = _place_of(wanted, inputs) if target != window else None
            if place is not None:
                spot = _line_that_takes(dataset, first, wanted[0])
                return Within(spot, window, target, place, len(inputs[0]))
    return None


def _slide(windows: list[torch.Tensor]) -> bool:
    """Whether each begins a little later in one and the same series than the one before."""
    if any(each.shape != windows[0].shape or not each.dim() or len(each) < SHORTEST for each in windows):
        return False
    steps = range(1, min(MOST_APART, len(windows[0]) // 2) + 1)
    return any(all(torch.equal(one[step:], other[:-step]) for one, other in pairwise(windows)) for step in steps)


def _place_of(targets: list[torch.Tensor], windows: list[torch.Tensor]) -> int | None:
    """Where each target stands in its window, if that is the same place for all, and they are numbers that do not occur by chance."""
    flat = [each.reshape(-1) for each in targets]
    numbers = torch.cat(flat)
    if (
        len(flat[0]) > len(windows[0]) // 2
        or len(set(numbers.tolist())) < NEIGHBOURS // 2
        or bool((numbers == numbers.round()).all())
    ):
        return None
    if any(len(each) != len(flat[0]) for each in flat):
        return None
    rows = [each.reshape(len(each), -1) for each in windows]
    for column, place in _places(flat[0], rows[0]):
        if all(torch.equal(row[place : place + len(one), column], one) for row, one in zip(rows, flat, strict=True)):
            return place
    return None


def _places(one: torch.Tensor, row: torch.Tensor) -> Iterator[tuple[int, int]]:
    for column in range(row.shape[1]):
        yield from ((column, place) for place in range(len(row) - len(one) + 1) if row[place, column] == one[0])


@dataclass(frozen=True, slots=True)
class Taken(Property):
    """Just these numbers, and no more."""

    numbers: torch.Tensor

    def holds(self, thing: Any) -> bool | None:
        found = numbers_of(thing)
        return (
            found is not None and found.numel() == self.numbers.numel() and torch.equal(found.reshape(-1), self.numbers)
        )


def _line_that_takes(dataset: Any, index: int, target: torch.Tensor) -> Spot | None:
    watch = LineWatch(Taken(target.reshape(-1)))
    watch.during(lambda: dataset[index])
    found = watch.spot("")
    return found[0] if found is not None else None
