"""Windows that slide over a series, and a target that lies within its own window: a few neighbours are fetched and compared.

Runs the program's code: only ever in a child process, but for rows of plain tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import FrameType
from typing import Any

import torch

from whence.lineage.datasets.pairing import numbers_of, parts_of
from whence.lineage.datasets.preparing import innermost
from whence.lineage.lines import LineWatch
from whence.lineage.looking import is_array
from whence.lineage.preparation import first_shown
from whence.lineage.properties import Property
from whence.source.spots import Spot
from whence.source.text import statement_at

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
    shape: tuple[int, ...]
    """Of the window of one sample."""
    at: tuple[int, ...]
    """Where in that the target is, each of its numbers counted along all axes."""
    first: int
    targets: torch.Tensor
    """Of that sample and its neighbours, one after the other."""


def line_that_makes(within: Within, frames: list[FrameType]) -> Spot | None:
    """The first line before training after which a variable has the targets, each at the number of its sample."""

    def shows(thing: Any) -> bool:
        numbers = numbers_of(thing)
        rows = (
            numbers[within.first : within.first + NEIGHBOURS]
            if numbers is not None and numbers.dim()
            else None
        )
        return rows is not None and torch.equal(rows.reshape(-1), within.targets)

    found = first_shown(frames, shows)
    statement = statement_at(*found) if found is not None else None
    return (
        Spot.of_node(found[0], statement) if found is not None and statement is not None else None
    )


def target_within(dataset: Any) -> Within | None:
    dataset = innermost(dataset)
    first = (len(dataset) - NEIGHBOURS) // 2
    if first < 0:
        return None
    parts = [parts_of(dataset[each]) for each in range(first, first + NEIGHBOURS)]
    if any(each.keys() != parts[0].keys() or None in each.values() for each in parts):
        return None
    columns = {name: [each[name] for each in parts] for name in parts[0]}
    for window, given in columns.items():
        axis = _axis_of_time(given)
        for target, wanted in columns.items() if axis is not None else ():
            found = (
                _place_of(wanted, [_rows(each, axis) for each in given])
                if axis is not None and target != window
                else None
            )
            if found is not None and axis is not None:
                (place, column), shape = found, given[0].shape
                at = _rows(torch.arange(shape.numel()).reshape(shape), axis)[
                    place : place + wanted[0].numel(), column
                ]
                return Within(
                    spot=_line_that_takes(dataset, first, wanted[0]),
                    window=window,
                    target=target,
                    place=place,
                    length=shape[axis],
                    shape=tuple(shape),
                    at=tuple(at.tolist()),
                    first=first,
                    targets=torch.cat([each.reshape(-1) for each in wanted]),
                )
    return None


def _axis_of_time(windows: list[torch.Tensor]) -> int | None:
    """The axis along which windows slide; for convolutions it is the last one."""
    for axis in range(windows[0].dim()):
        turned = [each.movedim(axis, 0) for each in windows if axis < each.dim()]
        if len(turned) == len(windows) and _slide(turned):
            return axis
    return None


def _rows(window: torch.Tensor, axis: int) -> torch.Tensor:
    """What there is at each point of time."""
    return window.movedim(axis, 0).reshape(window.shape[axis], -1)


def _slide(windows: list[torch.Tensor]) -> bool:
    """Whether each begins a little later in one and the same series than the one before."""
    if any(
        each.shape != windows[0].shape or not each.dim() or len(each) < SHORTEST for each in windows
    ):
        return False
    steps = range(1, min(MOST_APART, len(windows[0]) // 2) + 1)
    return any(
        all(torch.equal(one[step:], other[:-step]) for one, other in pairwise(windows))
        for step in steps
    )


def _place_of(targets: list[torch.Tensor], windows: list[torch.Tensor]) -> tuple[int, int] | None:
    """Where each target stands in its window, and in which column, if that is the same for all, and they are numbers that do not
    occur by chance."""
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
    for column, place in _places(flat[0], windows[0]):
        if all(
            torch.equal(row[place : place + len(one), column], one)
            for row, one in zip(windows, flat, strict=True)
        ):
            return place, column
    return None


def _places(one: torch.Tensor, row: torch.Tensor) -> Iterator[tuple[int, int]]:
    for column in range(row.shape[1]):
        yield from (
            (column, place)
            for place in range(len(row) - len(one) + 1)
            if row[place, column] == one[0]
        )


@dataclass(frozen=True, slots=True)
class Taken(Property):
    """Just these numbers, and no more."""

    numbers: torch.Tensor

    def holds(self, thing: Any) -> bool | None:
        is_scalar = (
            type(thing).__module__ == "numpy" and hasattr(thing, "item") and not is_array(thing)
        )
        found = numbers_of(thing.item() if is_scalar else thing)
        return (
            found is not None
            and found.numel() == self.numbers.numel()
            and torch.equal(found.reshape(-1), self.numbers)
        )


def _line_that_takes(dataset: Any, index: int, target: torch.Tensor) -> Spot | None:
    watch = LineWatch(Taken(target.reshape(-1)))
    watch.during(lambda: dataset[index])
    found = watch.spot("")
    return found[0] if found is not None else None
