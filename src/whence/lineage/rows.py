"""Which samples of the batch a bad element belongs to, proven by running the step without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from whence.finding import Sample
from whence.tape.batches import Batch, BatchLeaf
from whence.tape.replay import Run, Unreplayable, trouble_in
from whence.tape.tape import Value
from whence.tape.trip import Trip

MOST_ROWS = 16


@dataclass(frozen=True, slots=True)
class Rows:
    """Positions in a batch that are to blame, and what the step gives without them."""

    batch: Batch
    positions: tuple[int, ...]
    outcome: torch.Tensor | None
    removed: bool
    """Whether they were taken out; else others were put in their place."""

    def sample(self, leaf: str | None = None) -> Sample:
        index = self.batch.indices[self.positions[0]] if self.batch.indices is not None else None
        plain = int(index) if isinstance(index, int) else None
        return Sample(
            batch=self.batch.number, position=self.positions[0], dataset_index=plain, leaf=leaf
        )

    def text(self) -> str:
        indices = self.batch.indices
        named = [
            str(indices[each]) if indices is not None else f"at position {each}"
            for each in self.positions
        ]
        what = f"sample {named[0]}" if len(named) == 1 else f"samples {', '.join(named)}"
        return f"without {what}" if self.removed else f"with {what} replaced by another sample"


def blamed_rows(trip: Trip, bad: torch.Tensor, is_cured: Callable[[Run], bool]) -> Rows | None:
    """The samples behind the elements marked in `bad`, if the step is cured without them."""
    for batch, leaves, size in _batches(trip):
        for positions in _guesses(bad, size):
            if not positions or len(positions) >= size or len(positions) > MOST_ROWS:
                continue
            for removed in (True, False):
                run = _without(trip, leaves, size, positions, removed)
                if run is not None and is_cured(run):
                    return Rows(batch, tuple(positions), trip.outcome(run), removed)
    return None


def only_sample(trip: Trip) -> Sample | None:
    """The sample of a batch that has no other: nothing can be left out to prove it, and nothing else can be to blame."""
    batches = {
        id(each.leaf.batch): each.leaf.batch
        for each in _leaves(trip)
        if isinstance(each.leaf, BatchLeaf)
    }
    batch = trip.batch_now(next(iter(batches.values()))) if len(batches) == 1 else None
    if batch is None or batch.indices is None or len(batch.indices) != 1:
        return None
    return Rows(batch, (0,), None, removed=True).sample()


def _leaves(trip: Trip) -> list[Value]:
    return list(trip.run.leaves) if trip.run is not None else []


def _batches(trip: Trip) -> list[tuple[Batch, list[Value], int]]:
    """The batches that the replayed step drew on: their leaves and their size."""
    found: dict[int, tuple[Batch, list[Value]]] = {}
    for value in _leaves(trip):
        if isinstance(value.leaf, BatchLeaf) and value.shape:
            found.setdefault(id(value.leaf.batch), (value.leaf.batch, []))[1].append(value)
    result = []
    for batch, leaves in found.values():
        size = max((each.shape[0] for each in leaves), default=0)
        if size > 1:
            result.append(
                (trip.batch_now(batch), [each for each in leaves if each.shape[0] == size], size)
            )
    return result


def _guesses(bad: torch.Tensor, size: int) -> list[list[int]]:
    """Positions by each axis that could be the batch's, or a multiple of it."""
    guesses: list[list[int]] = []
    places = bad.nonzero()
    for axis, length in enumerate(bad.shape):
        if length and length % size == 0:
            repeat = length // size
            for positions in (places[:, axis] // repeat, places[:, axis] % size):
                found = sorted(set(positions.tolist()))
                if found not in guesses:
                    guesses.append(found)
    return guesses


def _without(
    trip: Trip, leaves: list[Value], size: int, positions: list[int], removed: bool
) -> Run | None:
    kept = [each for each in range(size) if each not in positions]
    rows = kept if removed else [kept[0] if each in positions else each for each in range(size)]
    assert trip.run is not None
    other = {value: trip.run.leaves[value].detach()[rows] for value in leaves}
    try:
        run = trip.again(substitute=other)
    except (Unreplayable, RuntimeError, IndexError):
        return None
    return run if run.raised is None else None


def is_finite_outcome(trip: Trip, run: Run) -> bool:
    outcome = trip.outcome(run)
    return outcome is not None and not trouble_in(outcome)
