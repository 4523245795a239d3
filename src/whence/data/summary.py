"""Summary of a stream of batches: fed one batch at a time, mergeable, keeps no data.

summary = Summary()
for batch in loader:
    summary.add(batch)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from whence.data.arrays import Part, is_missing
from whence.data.facts import Facts
from whence.data.leaves import MOST_UNNAMED_COLUMNS, Leaf, Name, leaves_of
from whence.data.numbers import Limits, Numbers
from whence.data.tally import MOST_CATEGORIES, Tally
from whence.finding import described

MOST_SHAPES = 64
WORDS_AT_ONCE = 65_536

LimitsOf = Callable[[Name | None, int], Limits | None]


def no_limits(_name: Name | None, _columns: int) -> Limits | None:
    return None


@dataclass(slots=True)
class ArraySummary:
    """One array of every batch, or one column of a frame."""

    limits: LimitsOf = no_limits
    name: Name | None = None
    """The column's name, if this is a column of a frame."""
    rows: int = 0
    dtypes: dict[str, int] = field(default_factory=dict)
    """Each type, and the row where it first occurs."""
    dtype_matters: bool = True
    shapes: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Each shape without its first axis, and the row where it first occurs."""
    numbers: Numbers | None = None
    tally: Tally | None = None
    declared: tuple[str, ...] = ()
    missing_words: int = 0
    first_missing_word: int | None = None
    trouble: str | None = None
    by_column: bool = False

    def add(self, part: Part) -> None:
        """Add the array of the next batch. An unreadable one is recorded; nothing is raised."""
        self.dtypes.setdefault(part.dtype, self.rows)
        self.dtype_matters &= part.dtype_matters
        if len(self.shapes) < MOST_SHAPES:
            self.shapes.setdefault(part.shape[1:] if part.shape else (), self.rows)
        try:
            if part.numbers is not None:
                self._add_numbers(part.numbers, part)
            elif part.words is not None:
                self._add_words(part)
            else:
                self.trouble = self.trouble or part.trouble
        except Exception as exception:
            self.trouble = self.trouble or described(exception)
        self.rows += part.rows

    def _add_numbers(self, tensor: torch.Tensor, part: Part) -> None:
        view, by_column = as_columns(tensor)
        if self.numbers is None:
            whole = not tensor.dtype.is_floating_point and not part.is_time
            columns = view.shape[1]
            limits = self.limits(self.name, columns)
            self.numbers = Numbers(columns, is_whole=whole, is_time=part.is_time, limits=limits)
            self.by_column = by_column
        elif view.shape[1] != self.numbers.columns or by_column != self.by_column:
            self.numbers.collapse()
            self.by_column = False
            view = tensor.reshape(len(view), 1, -1)
        if tensor.dtype.is_floating_point:
            self.numbers.is_whole, self.numbers.tallies = False, []
        self.numbers.add(view)

    def _add_words(self, part: Part) -> None:
        assert part.words is not None
        self.declared = self.declared or part.declared
        self.tally = self.tally or Tally()
        for start in range(0, part.words.length, WORDS_AT_ONCE):
            words = part.words.take(start, min(part.words.length, start + WORDS_AT_ONCE))
            missing = self.tally.add_words(words, self.rows + start)
            if missing and self.first_missing_word is None:
                self.first_missing_word = self.rows + start + first_missing(words)
            self.missing_words += missing

    def merge(self, other: ArraySummary) -> None:
        for dtype, row in other.dtypes.items():
            self.dtypes.setdefault(dtype, row + self.rows)
        for shape, row in other.shapes.items():
            self.shapes.setdefault(shape, row + self.rows)
        self.dtype_matters &= other.dtype_matters
        self.trouble = self.trouble or other.trouble
        self.declared = self.declared or other.declared
        if self.first_missing_word is None and other.first_missing_word is not None:
            self.first_missing_word = other.first_missing_word + self.rows
        self.missing_words += other.missing_words
        if other.tally is not None:
            self.tally = self.tally or Tally()
            self.tally.merge(other.tally, self.rows)
        if other.numbers is not None and self.numbers is None:
            self.numbers, self.by_column = other.numbers, other.by_column
        elif other.numbers is not None and self.numbers is not None:
            if (self.numbers.columns, self.by_column) != (other.numbers.columns, other.by_column):
                self.numbers.collapse()
                other.numbers.collapse()
                self.by_column = False
            self.numbers.merge(other.numbers)
        self.rows += other.rows

    def facts(self) -> list[Facts]:
        """Statistics per column: several for a table, one for other arrays, none if unreadable."""
        if self.numbers is not None:
            return self.numbers.facts()
        if self.tally is None:
            return []
        observed = self.rows - self.missing_words
        return [
            Facts(
                rows=self.rows,
                observed=observed,
                missing=self.missing_words,
                first_missing=self.first_missing_word,
                tally=self.tally,
                declared=self.declared[:MOST_CATEGORIES],
            )
        ]


def as_columns(tensor: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """View a tensor as (rows, columns, inner), and say whether its columns are separate.

    The last axis of a table and the channels of a batch of images are; anything else is one column.
    """
    if tensor.dim() == 0:
        return tensor.reshape(1, 1, 1), False
    if tensor.dim() == 2 and 1 <= tensor.shape[1] <= MOST_UNNAMED_COLUMNS:
        return tensor.unsqueeze(2), True
    if tensor.dim() == 4 and 1 <= tensor.shape[1] <= MOST_UNNAMED_COLUMNS:
        return tensor.reshape(tensor.shape[0], tensor.shape[1], -1), True
    inner = tensor[:1].numel() if len(tensor) else 1
    return tensor.reshape(len(tensor), 1, inner), False


def first_missing(words: Any) -> int:
    return next(place for place, each in enumerate(words) if is_missing(each))


@dataclass(slots=True)
class LeafSummary:
    """One leaf of every batch: an array, or a frame's columns by name."""

    limits: LimitsOf = no_limits
    rows: int = 0
    batches: int = 0
    is_even: bool = True
    """Whether its first axis matched the first leaf's in every batch."""
    uneven: tuple[int, int, int] | None = None
    """The first mismatching batch: its row, its length, the first leaf's length."""
    has_rows: bool = True
    array: ArraySummary | None = None
    frame: dict[Name, ArraySummary] | None = None

    def add(self, leaf: Leaf) -> None:
        if leaf.frame is not None:
            self.frame = self.frame if self.frame is not None else {}
            for name, part in leaf.frame:
                self.frame.setdefault(name, ArraySummary(self.limits, name, rows=self.rows)).add(
                    part
                )
        elif leaf.part is not None:
            self.has_rows &= bool(leaf.part.shape)
            self.array = self.array or ArraySummary(self.limits)
            self.array.add(leaf.part)
        self.rows += leaf.rows
        self.batches += 1

    def merge(self, other: LeafSummary) -> None:
        if other.frame is not None:
            self.frame = self.frame if self.frame is not None else {}
            for name, column in other.frame.items():
                self.frame.setdefault(name, ArraySummary(self.limits, name, rows=self.rows)).merge(
                    column
                )
        if other.array is not None:
            self.array = self.array or ArraySummary(self.limits)
            self.array.merge(other.array)
        if self.uneven is None and other.uneven is not None:
            self.uneven = (other.uneven[0] + self.rows, *other.uneven[1:])
        self.is_even &= other.is_even
        self.has_rows &= other.has_rows
        self.rows += other.rows
        self.batches += other.batches


@dataclass(slots=True)
class Summary:
    """All leaves of all batches. `limits` are the values beyond which rows are counted."""

    limits: Mapping[str, LimitsOf] = field(default_factory=dict)
    leaves: dict[str, LeafSummary] = field(default_factory=dict)
    batches: int = 0

    @property
    def rows(self) -> int:
        return max((leaf.rows for leaf in self.leaves.values()), default=0)

    def add(self, batch: Any) -> None:
        """Add one batch: an array, a frame, or a structure of them."""
        self.add_leaves(list(leaves_of(batch)))

    def add_leaves(self, leaves: list[Leaf]) -> None:
        length = next((leaf.rows for leaf in leaves if leaf.shape), None)
        for leaf in leaves:
            known = self.leaves.get(leaf.path)
            if known is None:
                known = self.leaves[leaf.path] = LeafSummary(self.limits.get(leaf.path, no_limits))
            if length is not None and leaf.shape and leaf.rows != length:
                known.is_even = False
                known.uneven = known.uneven or (known.rows, leaf.rows, length)
            known.add(leaf)
        self.batches += 1

    def merge(self, other: Summary) -> None:
        """Merge another summary, whose rows follow these. The other must not be used afterwards."""
        for path, leaf in other.leaves.items():
            self.leaves.setdefault(path, LeafSummary(self.limits.get(path, no_limits))).merge(leaf)
        self.batches += other.batches
