"""Whether what belongs together in a sample is still together in the batch: samples are fetched one by one and looked for in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from whence.lineage.lines import LineWatch
from whence.lineage.looking import is_array
from whence.lineage.properties import Property
from whence.source.spots import Spot
from whence.tape.batches import LoaderInfo

FEWEST = 4
MOST = 64
MOST_NUMBERS = 20_000

Order = list[int]


@dataclass(slots=True)
class Parting:
    """Plain data: it comes from a child process."""

    spot: Spot | None
    moved: str
    """The part of a sample that is in another place of the batch than the rest of it."""
    kept: str
    wrong: int
    size: int


def parting_of(info: LoaderInfo, indices: list[Any]) -> Parting | None:
    """Fetch a batch again, sample by sample. Runs the program's code: only ever in a child process."""
    samples = [info.dataset[each] for each in indices[:MOST]]
    parts = [parts_of(each) for each in samples]
    if len(samples) < FEWEST or any(each.keys() != parts[0].keys() for each in parts):
        return None
    columns = {name: [each[name] for each in parts if each[name] is not None] for name in parts[0]}
    columns = {name: each for name, each in columns.items() if len(each) == len(samples)}
    rows = list(_rows_of(info.collate(list(samples)), len(samples)))
    if any(_is_an_order(each) for each in rows):
        # The batch says itself how to undo it.
        return None
    for name, column in columns.items():
        orders = [order for each in rows if (order := _order_of(each, column)) is not None]
        for other, values in columns.items():
            carriers = [each for each in rows if other != name and _carries(each, values)]
            if not orders or not carriers:
                continue
            wrong = min(_out_of_place(each, values, order) for each in carriers for order in orders)
            if wrong >= 2:
                is_moved = all(order != sorted(order) for order in orders)
                moved, kept = (name, other) if is_moved else (other, name)
                line = _line_that_moves(info, samples, columns[moved])
                return Parting(line, moved, kept, wrong, len(samples))
    return None


def parts_of(sample: Any) -> dict[str, Any]:
    """A sample's parts by name, as numbers where they are such."""
    if isinstance(sample, dict):
        found = {repr(key): each for key, each in sample.items()}
    elif is_dataclass(sample) and not isinstance(sample, type):
        found = {each.name: getattr(sample, each.name) for each in fields(sample)}
    elif isinstance(sample, tuple | list):
        found = {str(number): each for number, each in enumerate(sample)}
    else:
        return {}
    return {name: numbers_of(each) for name, each in found.items()}


def numbers_of(thing: Any) -> torch.Tensor | None:
    if isinstance(thing, list | tuple):
        plain = 0 < len(thing) <= MOST_NUMBERS and all(
            isinstance(each, int | float) for each in thing
        )
        return torch.tensor(thing, dtype=torch.float64) if plain else None
    if isinstance(thing, bool | int | float):
        return torch.tensor(thing, dtype=torch.float64)
    if is_array(thing):
        thing = torch.as_tensor(thing) if thing.dtype.kind in "iufb" else None
    if (
        not isinstance(thing, torch.Tensor)
        or thing.is_complex()
        or thing.layout is not torch.strided
    ):
        return None
    return thing.detach().double() if 0 < thing.numel() <= MOST_NUMBERS else None


def _number_of(part: torch.Tensor | None) -> int | None:
    return part.numel() if part is not None else None


def _rows_of(batch: Any, size: int) -> Iterator[list[torch.Tensor]]:
    """What in a batch has a row for each sample."""
    if isinstance(batch, PackedSequence):
        batch = pad_packed_sequence(batch, batch_first=True)[0]
    if is_array(batch) or isinstance(batch, torch.Tensor):
        tensor = _whole(batch)
        if tensor is not None and tensor.dim() and len(tensor) == size:
            yield list(tensor)
        elif tensor is not None and tensor.dim() > 1 and tensor.shape[1] == size:
            yield list(tensor.transpose(0, 1))
    elif (
        isinstance(batch, list | tuple)
        and len(batch) == size
        and None not in map(_number_of, map(numbers_of, batch))
    ):
        yield [each for each in map(numbers_of, batch) if each is not None]
    elif isinstance(batch, dict):
        for each in batch.values():
            yield from _rows_of(each, size)
    elif is_dataclass(batch) and not isinstance(batch, type):
        for field in fields(batch):
            yield from _rows_of(getattr(batch, field.name), size)
    elif isinstance(batch, list | tuple) and len(batch) < MOST:
        for each in batch:
            yield from _rows_of(each, size)


def _whole(thing: Any) -> torch.Tensor | None:
    tensor = torch.as_tensor(thing) if not is_array(thing) or thing.dtype.kind in "iufb" else None
    if (
        tensor is None
        or tensor.is_complex()
        or tensor.layout is not torch.strided
        or tensor.numel() > 10_000_000
    ):
        return None
    return tensor.detach().double()


def _is_an_order(rows: list[torch.Tensor]) -> bool:
    if any(each.numel() != 1 for each in rows):
        return False
    places = [float(each) for each in rows]
    return places != sorted(places) and sorted(places) == [float(each) for each in range(len(rows))]


def _is(row: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether a row is a part of a sample, as it is or padded at its end."""
    if row.numel() == value.numel():
        return torch.equal(row.reshape(-1), value.reshape(-1))
    if (
        row.dim() != value.dim()
        or not row.dim()
        or row.shape[1:] != value.shape[1:]
        or len(row) < len(value)
    ):
        return False
    rest = row[len(value) :].reshape(-1)
    return torch.equal(row[: len(value)], value) and bool((rest == rest[0]).all())


def _order_of(rows: list[torch.Tensor], column: list[torch.Tensor]) -> Order | None:
    """Which sample each row is of, if that is certain for every row."""
    found: Order = []
    for row in rows:
        places = [number for number, value in enumerate(column) if _is(row, value)]
        if len(places) != 1:
            return None
        found += places
    return found if len(set(found)) == len(column) else None


def _carries(rows: list[torch.Tensor], column: list[torch.Tensor]) -> bool:
    """Whether the rows are these values, in whatever order."""
    left = list(column)
    for row in rows:
        place = next((number for number, value in enumerate(left) if _is(row, value)), None)
        if place is None:
            return False
        del left[place]
    return True


def _out_of_place(rows: list[torch.Tensor], column: list[torch.Tensor], order: Order) -> int:
    return sum(not _is(row, column[place]) for row, place in zip(rows, order, strict=True))


@dataclass(frozen=True, slots=True)
class Moved(Property):
    """One part of all samples, in another order than the samples."""

    column: list[torch.Tensor]

    def holds(self, thing: Any) -> bool | None:
        if not isinstance(thing, list | tuple | torch.Tensor | PackedSequence) and not is_array(
            thing
        ):
            return None
        straight = list(range(len(self.column)))
        return any(
            _carries(rows, self.column) and _out_of_place(rows, self.column, straight) > 0
            for rows in _rows_of(thing, len(self.column))
        )


def _line_that_moves(
    info: LoaderInfo, samples: list[Any], column: list[torch.Tensor]
) -> Spot | None:
    """The first line of the collate function after which a variable has the values in another order than the samples."""
    watch = LineWatch(Moved(column))
    watch.during(lambda: info.collate(list(samples)))
    found = watch.spot("")
    return found[0] if found is not None else None
