"""Whether labels are masked away as if they were padding: samples are fetched one by one and put together.

A tokenizer without a symbol for padding often pads with the one that means the end. A mask of that symbol then takes both. Labels that
are padded with zeros, and masked by that, lose the class that is number zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from whence.lineage.lines import LineWatch
from whence.lineage.looking import is_array
from whence.lineage.properties import Property
from whence.source.spots import Spot
from whence.source.text import statement_at
from whence.tape.batches import LoaderInfo, leaves_of

FEWEST = 4
MOST = 64
MOSTLY = 0.9
RARE = 0.02


@dataclass(slots=True)
class Ending:
    """Plain data: it comes from a child process."""

    symbol: int
    ignored: int
    spot: Spot | None
    """The line of the collate function that masks it; none where the loss itself leaves it out."""
    share: float = 0.0
    """It is no end but a class: how many of the samples' own labels it is."""


def masked_class(info: LoaderInfo, indices: list[Any], ignored: list[int]) -> Ending | None:
    """A label of the samples that the collate function pads their labels with. Runs the program's code: only ever in a child process."""
    fetched = [info.dataset[each] for each in indices[:MOST]]
    samples = [list(_sequences(each)) for each in fetched]
    tables = [each for _, each in leaves_of(info.collate(fetched)) if _is_table(each, len(fetched))]
    for symbol in (each for each in ignored if each >= 0):
        for part in range(min(map(len, samples), default=0)):
            rows = [each[part] for each in samples]
            own = [sum(label == symbol for label in _without_tail(row, symbol)) for row in rows]
            share = sum(own) / sum(map(len, rows))
            if share > RARE and any(_is_filled_up(table, rows, symbol) for table in tables):
                return Ending(symbol, symbol, None, share)
    return None


def _without_tail(row: list[int], symbol: int) -> list[int]:
    """What comes before the last other label: samples may have been padded before."""
    last = max((at for at, label in enumerate(row) if label != symbol), default=-1)
    return row[: last + 1]


def _is_filled_up(table: torch.Tensor, rows: list[list[int]], symbol: int) -> bool:
    """Whether a table has these rows, and behind the shorter ones nothing but a symbol."""
    width = table.shape[1]
    return min(map(len, rows)) < width and all(
        kept == [*row, *[symbol] * (width - len(row))]
        for kept, row in zip(table.tolist(), rows, strict=True)
    )


def masked_ending(info: LoaderInfo, indices: list[Any], ignored: list[int]) -> Ending | None:
    """Runs the program's code: only ever in a child process."""
    samples = [info.dataset[each] for each in indices[:MOST]]
    rows = [list(_sequences(each)) or list(_made_alone(info, each)) for each in samples]
    # An end comes once: what comes more often is a word, or a label for nothing.
    ends = [{each[-1] for each in row if each.count(each[-1]) == 1} for row in rows]
    if len(samples) < FEWEST or not all(ends):
        return None
    tables = [
        each for _, each in leaves_of(info.collate(list(samples))) if _is_table(each, len(samples))
    ]
    for symbol in set.intersection(*ends):
        own = [sum(each.count(symbol) for each in row) for row in rows]
        padded = [each for each in tables if _is_padded_with(symbol, each, own)]
        for ignore in ignored:
            for inputs in padded:
                if ignore == symbol:
                    return Ending(symbol, ignore, None)
                for labels in tables:
                    if labels.shape == inputs.shape and _takes_the_end(
                        labels, inputs, symbol, ignore
                    ):
                        return Ending(
                            symbol, ignore, _line_that_masks(info, samples, labels, symbol, ignore)
                        )
    return None


def _sequences(sample: Any) -> Iterator[list[int]]:
    """The rows of whole numbers that a sample consists of."""
    if isinstance(sample, torch.Tensor) or is_array(sample):
        whole = (
            not sample.dtype.is_floating_point
            if isinstance(sample, torch.Tensor)
            else sample.dtype.kind in "iu"
        )
        if whole and len(sample.shape) == 1 and len(sample):
            yield sample.tolist()
    elif isinstance(sample, list | tuple) and sample and all(type(each) is int for each in sample):
        yield list(sample)
    elif isinstance(sample, list | tuple | dict):
        for each in sample.values() if isinstance(sample, dict) else sample:
            yield from _sequences(each)


def _made_alone(info: LoaderInfo, sample: Any) -> Iterator[list[int]]:
    """What the collate function makes of a text that it is given alone: there is nothing to fill up."""
    for _, leaf in leaves_of(info.collate([sample])):
        if _is_table(leaf, 1) and leaf.numel() and int(leaf.min()) >= 0:
            yield leaf[0].tolist()


def _is_table(leaf: Any, rows: int) -> bool:
    return (
        isinstance(leaf, torch.Tensor)
        and leaf.dtype in (torch.int64, torch.int32)
        and leaf.dim() == 2
        and len(leaf) == rows
    )


def _is_padded_with(symbol: int, table: torch.Tensor, own: list[int]) -> bool:
    """Whether some rows have a symbol more often than their samples have it, and none lacks more than what was cut off at the end."""
    more = [int(one) - other for one, other in zip((table == symbol).sum(1), own, strict=True)]
    return min(more) >= -1 and max(more) > 0


def _takes_the_end(labels: torch.Tensor, inputs: torch.Tensor, symbol: int, ignored: int) -> bool:
    """Labels are the inputs, or those one place on; what comes before the end counts, and the end does not."""
    if bool((labels == symbol).any()) or bool((inputs == ignored).any()):
        return False
    for shift in (0, 1):
        told, aimed = inputs[:, shift:], labels[:, : labels.shape[1] - shift]
        counts = aimed != ignored
        if not bool(counts.any()) or not bool((aimed[counts] == told[counts]).all()):
            continue
        ends = (told == symbol) & (told == symbol).flip(1).cumprod(1).flip(1).bool()
        before = (ends.shape[1] - ends.sum(1) - 1).clamp(min=0)
        return float(counts.gather(1, before[:, None]).float().mean()) > MOSTLY
    return False


@dataclass(frozen=True, slots=True)
class WithoutEnd(Property):
    """Numbers of the labels' shape, some of them masked, and none of them the symbol."""

    shape: tuple[int, ...]
    symbol: int
    ignored: int

    def holds(self, thing: Any) -> bool | None:
        if not isinstance(thing, torch.Tensor) and not is_array(thing):
            return None
        same = tuple(thing.shape) == self.shape
        return (
            same and bool((thing == self.ignored).any()) and not bool((thing == self.symbol).any())
        )


def _line_that_masks(
    info: LoaderInfo, samples: list[Any], labels: torch.Tensor, symbol: int, ignored: int
) -> Spot | None:
    watch = LineWatch(WithoutEnd(tuple(labels.shape), symbol, ignored))
    watch.during(lambda: info.collate(list(samples)))
    frame, line = watch.found or (None, 0)
    statement = statement_at(frame.f_code.co_filename, line) if frame is not None else None
    return (
        Spot.of_node(frame.f_code.co_filename, statement)
        if frame is not None and statement is not None
        else None
    )
