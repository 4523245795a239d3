"""What a random augmentation leaves behind in the data that a dataset has stored. Only ever in a child process.

Read twice with the same random numbers such a sample may well be the same: a hole that is cut where one is already changes nothing.
So it is read with some numbers, and again with these after it was read with others.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from whence.lineage.datasets.asking import alike, line_of, print_of
from whence.lineage.datasets.seeding import fetched
from whence.lineage.looking import is_array
from whence.source.spots import Spot

FIRST, ASKED, OTHERS = range(3, 6), 6, range(7, 11)


def residue_of(
    dataset: Any, index: Any, stored: dict[str, Any], before: dict[str, Any]
) -> tuple[str, Spot | None] | None:
    """Which of the things that are stored a read changes, so that later reads show it; and the line that does."""
    for seed in FIRST:
        fetched(dataset, index, seed)
    changed = {name: thing for name, thing in stored.items() if print_of(thing) != before[name]}
    if not changed or not all(
        isinstance(each, torch.Tensor | list) or is_array(each) for each in changed.values()
    ):
        return None
    kept = {name: _copy(thing) for name, thing in changed.items()}
    prints = {name: print_of(thing) for name, thing in changed.items()}
    straight = fetched(dataset, index, ASKED)
    for name, thing in changed.items():
        _restore(thing, kept[name])
    for seed in OTHERS:
        fetched(dataset, index, seed)
    # A cache is filled once; what is kept of other samples is not where this one is.
    moving = [name for name, each in prints.items() if print_of(changed[name]) != each]
    places = {place for name in moving for place in _places(name, changed[name], kept[name])}
    if not moving or len(places) > 1:
        return None
    if alike(straight, fetched(dataset, index, ASKED)):
        return None
    name = moving[0]
    for seed in OTHERS:
        _restore(changed[name], kept[name])
        line = line_of(
            lambda seed=seed: fetched(dataset, index, seed),  # type: ignore[misc]
            lambda: print_of(stored[name]),
        )
        if line is not None:
            return name, line
    return None


def _copy(thing: Any) -> Any:
    return thing.detach().clone() if isinstance(thing, torch.Tensor) else thing.copy()


def _restore(thing: Any, kept: Any) -> None:
    if isinstance(thing, list):
        thing[:] = kept
    elif isinstance(thing, torch.Tensor):
        thing.detach().copy_(kept)
    else:
        thing[...] = kept


def _places(name: str, now: Any, kept: Any) -> list[int]:
    """Which elements of a list, or rows of an array, are another than before."""
    if (element := re.search(r"\[(\d+)\]", name)) is not None:
        return [int(element[1])]
    if isinstance(now, list) or len(now.shape) < 2:
        return []
    rows = (now != kept).reshape(len(now), -1).any(1)
    return [number for number, differs in enumerate(rows.tolist()) if differs]
