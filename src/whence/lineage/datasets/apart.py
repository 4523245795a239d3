"""Inputs that stand beside the labels of other rows: shown by what comes out when the preparation is run once more.

Runs the program's code: only ever in a child process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from whence.lineage.datasets.belonging import (
    Mixed,
    Table,
    are_told,
    is_straight,
    led,
    mixed,
    pair_of,
    table_of,
)
from whence.lineage.preparation import VariableWatch, prepare_again
from whence.source.spots import Spot
from whence.source.text import statement_at

MOST_SAMPLES = 2_000
MOST_TABLES = 200
MOST_NUMBERS = 20_000_000
LONGEST_FETCH = 1.5

Pair = tuple[Table, Table]


@dataclass(frozen=True, slots=True)
class RowsApart:
    """Plain data: it comes from a child process."""

    spot: Spot
    mixed: Mixed
    table: str
    """The variable that has inputs and labels, or the inputs, in their first order."""
    moved: str
    """The one that has the inputs in another."""


@dataclass(frozen=True, slots=True)
class _Sighting:
    filename: str
    line: int
    name: str
    table: Table


@dataclass(slots=True)
class _Sightings:
    wanted: int
    """Nothing shorter can have the rows in it."""
    found: list[_Sighting] = field(default_factory=list)
    _numbers: int = 0

    def note(self, filename: str, line: int, name: str, thing: Any) -> None:
        parts = thing if isinstance(thing, tuple) and len(thing) < 8 else [thing]
        for each in parts:
            table = (
                table_of(each)
                if len(self.found) < MOST_TABLES and self._numbers < MOST_NUMBERS
                else None
            )
            if table is not None and len(table) >= self.wanted:
                self._numbers += len(table) * len(table.columns)
                self.found.append(_Sighting(filename, line, name, table))


def rows_apart(pair: Pair | None, frames: list[FrameType]) -> RowsApart | None:
    if pair is None or are_told(*pair):
        return None
    inputs, labels = pair
    sightings = _Sightings(len(inputs))
    prepare_again(frames, VariableWatch(sightings.note))
    tables = [each.table for each in sightings.found]
    found = mixed(inputs, labels, tables)
    if found is None:
        return None
    first = sightings.found[found.table]
    for each, places in list(zip(sightings.found, led(inputs, tables), strict=True))[
        found.table + 1 :
    ]:
        statement = statement_at(each.filename, each.line)
        if places is not None and is_straight(places) and statement is not None:
            return RowsApart(Spot.of_node(each.filename, statement), found, first.name, each.name)
    return None


def pair_in(dataset: Any) -> Pair | None:
    """What the samples of a dataset are made of: all inputs, and all labels."""
    samples: list[Any] = []
    began = time.monotonic()
    for index in range(min(len(dataset), MOST_SAMPLES)):
        samples.append(dataset[index])
        if time.monotonic() - began > LONGEST_FETCH:
            break
    return pair_of(samples)


def pair_of_tables(one: Any, other: Any) -> Pair | None:
    inputs, labels = table_of(one), table_of(other)
    if inputs is None or labels is None or len(inputs) != len(labels) or len(labels.columns) != 1:
        return None
    return inputs, labels
