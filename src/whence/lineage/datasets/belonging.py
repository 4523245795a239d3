"""Whose rows these are: the rows of one table, found again in another by their numbers, and whether the labels beside them are theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from whence.lineage.datasets.pairing import numbers_of, parts_of
from whence.lineage.looking import is_array
from whence.lineage.tables import numbers_of as columns_of_table

FEWEST = 24
MOST_ROWS = 200_000
MOST_NUMBERS = 2_000_000
MOST_COLUMNS = 24
MOST_CLASSES = 12
CLOSE = 1e-4
ENOUGH_WRONG = 0.2
ENOUGH_TOLD = 0.3
CERTAINLY_TOLD = 0.6

Columns = list[torch.Tensor]
"""Each has one number for each row."""
Places = torch.Tensor
"""For each row of one table, which row of another it is."""


@dataclass(frozen=True, slots=True)
class Table:
    """What a variable of the program had in it."""

    columns: Columns

    def __len__(self) -> int:
        return len(self.columns[0])


@dataclass(frozen=True, slots=True)
class Mixed:
    """Inputs whose labels are those of other rows."""

    table: int
    """The number of the table that has them in another order."""
    row: int
    other: int
    """An input and the row that it is of."""
    wrong: int
    size: int
    told: tuple[float, float] | None = None
    """Where the labels are in no table: how well the inputs tell them as they are, and in the order of the table."""


def table_of(thing: Any) -> Table | None:
    columns = _columns_of(thing)
    if not columns or not FEWEST <= len(columns[0]) <= MOST_ROWS:
        return None
    return Table([each.detach().cpu().double() for each in columns])


def _columns_of(thing: Any) -> Columns:
    known = columns_of_table(thing)
    if known is not None:
        return [torch.as_tensor(each.astype(float)) for each in known[:MOST_COLUMNS]]
    if is_array(thing):
        is_small = thing.dtype.kind in "iufb" and 0 < thing.size <= MOST_NUMBERS
        thing = torch.as_tensor(thing.copy()) if is_small else None
    if isinstance(thing, list | tuple):
        return _columns_of_list(thing)
    if (
        not isinstance(thing, torch.Tensor)
        or not thing.dim()
        or not 0 < thing.numel() <= MOST_NUMBERS
    ):
        return []
    if thing.is_complex() or thing.layout is not torch.strided:
        return []
    return list(thing.detach().reshape(len(thing), -1)[:, :MOST_COLUMNS].clone().unbind(1))


def _columns_of_list(things: Sequence[Any]) -> Columns:
    if not FEWEST <= len(things) <= MOST_ROWS:
        return []
    rows = [numbers_of(each) for each in things]
    sizes = {each.numel() if each is not None else 0 for each in rows}
    if len(sizes) != 1 or 0 in sizes:
        return []
    flat = torch.stack([each.reshape(-1)[:MOST_COLUMNS] for each in rows if each is not None])
    return list(flat.unbind(1))


def pair_of(samples: Sequence[Any]) -> tuple[Table, Table] | None:
    """The first and the last part of samples: what is put in, and what is to be told."""
    parts = [list(parts_of(each).values()) for each in samples]
    if not parts or any(len(each) != len(parts[0]) or len(each) < 2 for each in parts):
        return None
    inputs, labels = table_of([each[0] for each in parts]), table_of([each[-1] for each in parts])
    return (
        (inputs, labels)
        if inputs is not None and labels is not None and len(labels.columns) == 1
        else None
    )


def mixed(inputs: Table, labels: Table, tables: Sequence[Table]) -> Mixed | None:
    """Whether the inputs are rows of a table that has other labels for them."""
    label = labels.columns[0]
    if _is_counted(label):
        # A rank or a number of a row, which belongs to no table.
        return None
    places = {number: each for number, each in enumerate(led(inputs, tables)) if each is not None}
    for number, found in places.items():
        if any(_is_same(label, each[found]) for each in tables[number].columns):
            # They were moved together, if they were moved.
            return None
    moved = {number: each for number, each in places.items() if not is_straight(each)}
    for number, found in moved.items():
        for column in tables[number].columns:
            if _comes_from(label, column):
                return _mixed(number, found, label, column)
    for number, found in moved.items():
        for other in tables:
            if (
                len(other.columns) == 1
                and len(other) == len(tables[number])
                and _begins_with(other.columns[0], label)
            ):
                told = _told(inputs, label), _told(inputs, other.columns[0][found])
                if told[1] > max(ENOUGH_TOLD, 2 * told[0], 4 * len(label) ** -0.5):
                    return _mixed(number, found, label, other.columns[0], told)
    return None


def led(inputs: Table, tables: Sequence[Table]) -> list[Places | None]:
    """Which row of each table each input is, by itself or with the others that a variable has beside it: where a part was scaled, it is
    only with the rest of them that it can be known."""
    found = [places_in(inputs, each) for each in tables]
    wholes = [
        (table, places) for table, places in zip(tables, found, strict=True) if places is not None
    ]
    for number, table in enumerate(tables):
        for whole, places in wholes if found[number] is None else ():
            there = places_in(whole, table)
            if there is not None:
                found[number] = there[places]
                break
    return found


def _mixed(
    number: int,
    places: Places,
    label: torch.Tensor,
    column: torch.Tensor,
    told: tuple[float, float] | None = None,
) -> Mixed | None:
    if _tells_apart(label) and _keeps_a_distance(_looked_up(label, column), places):
        return None
    own = _spread(column)[places]
    wrong = (
        (_spread(label) - own).abs() > CLOSE
        if len(label) == len(column)
        else label != column[places]
    )
    if wrong.double().mean() < ENOUGH_WRONG:
        return None
    first = int(wrong.nonzero()[0])
    return Mixed(number, first, int(places[first]), int(wrong.sum()), len(label), told)


def _keeps_a_distance(labels: Places | None, inputs: Places) -> bool:
    """Whether what is to be told is always so many rows further on: the next visit, the value of tomorrow."""
    if labels is None:
        return False
    distances = labels - inputs
    return bool((distances == distances.mode().values).double().mean() > 1 - ENOUGH_WRONG)


def places_in(rows: Table, table: Table) -> Places | None:
    """Which row of a table each row is, if a column tells them apart: as it is, or scaled."""
    if len(rows) > len(table):
        return None
    for mine in rows.columns:
        if not _tells_apart(mine):
            continue
        for column in table.columns:
            found = _looked_up(mine, column)
            if found is None and len(mine) == len(column):
                found = _ranked(mine, column)
            if found is not None:
                return found
    return None


def is_straight(places: Places) -> bool:
    """In the order of the table, from some row on: a series that is told from what came before is so, too."""
    return bool((places - places[0] == torch.arange(len(places))).all())


def _tells_apart(column: torch.Tensor) -> bool:
    """Whether nearly every number is another one, and they are not just counted: of those, all tables have the same."""
    if not torch.isfinite(column).all():
        return False
    steps = column.sort().values.diff()
    different = steps[steps > 0]
    return len(different) > 0.9 * len(steps) and bool(different.max() > 1.01 * different.min())


def _is_counted(column: torch.Tensor) -> bool:
    steps = column.sort().values.diff()
    return bool(steps.min() > 0) and bool(steps.max() <= 1.01 * steps.min())


def _looked_up(mine: torch.Tensor, column: torch.Tensor) -> Places | None:
    known, order = column.float().sort()
    places = torch.searchsorted(known, mine.float()).clamp(max=len(known) - 1)
    return order[places] if bool((known[places] == mine.float()).all()) else None


def _ranked(mine: torch.Tensor, column: torch.Tensor) -> Places | None:
    if not _tells_apart(column):
        return None
    (ours, here), (theirs, there) = _spread(mine).sort(), _spread(column).sort()
    if not torch.allclose(ours, theirs, atol=CLOSE, rtol=0):
        return None
    places = torch.empty_like(here)
    places[here] = there
    return places


def _spread(column: torch.Tensor) -> torch.Tensor:
    """From 0 to 1: what a scaler makes of it is the same."""
    low, high = column.min(), column.max()
    return (column - low) / (high - low) if high > low else torch.zeros_like(column)


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if len(one) != len(other) or one.min() == one.max():
        return False
    return bool((one.float() == other.float()).all()) or torch.allclose(
        _spread(one), _spread(other), atol=CLOSE
    )


def _begins_with(column: torch.Tensor, label: torch.Tensor) -> bool:
    return len(label) <= len(column) and _is_same(label, column[: len(label)])


def _comes_from(label: torch.Tensor, column: torch.Tensor) -> bool:
    """Whether labels are a column of a table: from its first row on, or in an order of their own."""
    return _begins_with(column, label) or (
        _tells_apart(label) and len(label) <= len(column) and _looked_up(label, column) is not None
    )


def are_told(inputs: Table, labels: Table) -> bool:
    """Whether the labels can be told from the inputs beside them: then they are theirs. Labels that are all alike are anybody's."""
    label = labels.columns[0]
    return bool((label == label[0]).all()) or _told(inputs, label) > CERTAINLY_TOLD


def _told(inputs: Table, label: torch.Tensor) -> float:
    """How well a straight line through one half of the rows tells the labels of the other half."""
    finite = [each for each in inputs.columns if torch.isfinite(each).all()]
    if not finite or not torch.isfinite(label).all():
        return 0.0
    features = torch.stack(finite, 1)
    features = (features - features.mean(0)) / (features.std(0) + 1e-9)
    features = torch.cat(
        [features, features**2, torch.ones(len(features), 1, dtype=features.dtype)], 1
    )
    kinds = torch.unique(label)
    if len(kinds) < 2:
        return 0.0
    aims = (
        [(label == each).double() for each in kinds[1:]] if len(kinds) <= MOST_CLASSES else [label]
    )
    aim = torch.stack(aims, 1)
    halves = torch.arange(len(aim)) % 2 == 0
    return max(_correlation(features, aim, halves), _correlation(features, aim, ~halves))


def _correlation(features: torch.Tensor, aim: torch.Tensor, chosen: torch.Tensor) -> float:
    square = features[chosen].T @ features[chosen] + torch.eye(
        features.shape[1], dtype=features.dtype
    )
    weights = torch.linalg.solve(square, features[chosen].T @ aim[chosen])
    guess, truth = features[~chosen] @ weights, aim[~chosen]
    guess, truth = guess - guess.mean(0), truth - truth.mean(0)
    size = guess.norm(dim=0) * truth.norm(dim=0)
    return float(((guess * truth).sum(0) / size.clamp(min=1e-9)).max())
