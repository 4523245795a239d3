"""Count each category and record its first row, as long as there are few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from whence.data.arrays import is_missing

MOST_CATEGORIES = 64
WIDEST_SPAN = 1024
MOST_FAR_APART = 64

Category = str | int | bool


class Tally:
    def __init__(self) -> None:
        self.counts: dict[Category, int] = {}
        self.first: dict[Category, int] = {}
        self.overflowed = False

    def add_counted(self, counted: torch.Tensor, low: int, column: torch.Tensor, row: int) -> None:
        """Add counts of the integers from `low` on, found in a column of (rows, inner)."""
        found = counted.nonzero().reshape(-1)
        if len(found) > MOST_CATEGORIES:
            self.overflowed = True
            return
        for place, count in zip(found.tolist(), counted[found].tolist(), strict=True):
            value = bool(place + low) if column.dtype is torch.bool else place + low
            if value not in self.counts:
                self.first[value] = row + int((column == value).any(1).nonzero()[0])
            self._count(value, count)

    def add_words(self, words: Sequence[Any], row: int) -> int:
        """Count words; return the number of missing ones."""
        missing = sum(map(is_missing, words))
        if self.overflowed:
            return missing
        counted = (
            Counter(each for each in words if not is_missing(each)) if missing else Counter(words)
        )
        for word, count in counted.items():
            if word not in self.counts:
                self.first[word] = row + next(
                    place for place, each in enumerate(words) if each == word
                )
            self._count(word, count)
        return missing

    def merge(self, other: Tally, rows: int) -> None:
        """Merge another tally, whose rows are `rows` later."""
        self.overflowed |= other.overflowed
        for value, count in other.counts.items():
            self.first.setdefault(value, rows + other.first[value])
            self._count(value, count)

    def _count(self, value: Category, count: int) -> None:
        if value not in self.counts and len(self.counts) >= MOST_CATEGORIES:
            self.overflowed = True
            self.first.pop(value, None)
            return
        self.counts[value] = self.counts.get(value, 0) + count


def count_all(tallies: list[Tally], block: torch.Tensor, row: int) -> None:
    """Count the integers of (rows, columns, inner), column by column."""
    alive = [place for place, tally in enumerate(tallies) if not tally.overflowed]
    if not alive:
        return
    whole = (block if len(alive) == len(tallies) else block[:, alive]).to(torch.int64)
    low, high = whole.amin((0, 2)), whole.amax((0, 2))
    spans = high - low
    narrow = (spans >= 0) & (spans <= WIDEST_SPAN)
    for place in (~narrow).nonzero().reshape(-1).tolist():
        if len(tallies) > MOST_FAR_APART:
            # This many columns of large integers are tokens or pixels, not categories.
            tallies[alive[place]].overflowed = True
        else:
            _count_far_apart(tallies[alive[place]], whole[:, place], row)
    chosen = narrow.nonzero().reshape(-1)
    if not len(chosen):
        return
    # Use one histogram for all columns, with a separate range for each.
    stretch = int(spans[chosen].amax()) + 1
    places = (
        whole[:, chosen] - low[chosen][:, None] + (torch.arange(len(chosen)) * stretch)[:, None]
    )
    counted = torch.bincount(places.reshape(-1), minlength=stretch * len(chosen)).reshape(
        -1, stretch
    )
    for counts, place in zip(counted, chosen.tolist(), strict=True):
        tallies[alive[place]].add_counted(counts, int(low[place]), block[:, alive[place]], row)


def _count_far_apart(tally: Tally, column: torch.Tensor, row: int) -> None:
    """Count integers that are far apart but possibly few."""
    found, counts = torch.unique(column, return_counts=True)
    if len(found) > MOST_CATEGORIES:
        tally.overflowed = True
        return
    for value, count in zip(found.tolist(), counts.tolist(), strict=True):
        if value not in tally.counts:
            tally.first[value] = row + int((column == value).any(1).nonzero()[0])
        tally._count(value, count)


def merged(tallies: Iterable[Tally]) -> Tally:
    """Merge the tallies of several columns into one."""
    whole = Tally()
    for each in tallies:
        whole.merge(each, 0)
    return whole
