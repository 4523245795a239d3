"""A bounded sample of a stream, chosen by arithmetic on row numbers: the same rows every time, and no random stream is touched.

The stream is cut into strata of equal width and one row of each is taken, at a place that a hash decides, so that a pattern
that repeats every so many rows is not met in step. When the sample is full, every other row leaves and strata double.
"""

from __future__ import annotations

import torch

MOST_SAMPLED = 8192


class Sample:
    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.width = 1
        self.seen = 0
        self.in_order = True
        self.taken = 0
        self._strata: list[torch.Tensor] = []
        self._chunks: list[torch.Tensor] = []

    def picks(self, length: int) -> torch.Tensor | None:
        """Which of the next `length` observations to take; None for all of them."""
        if self.width == 1:
            return None
        strata = torch.arange(self.seen // self.width, (self.seen + length - 1) // self.width + 1)
        places = strata * self.width + _scatter(strata, self.width)
        return places[(places >= self.seen) & (places < self.seen + length)] - self.seen

    def add(self, values: torch.Tensor, picks: torch.Tensor | None, length: int) -> None:
        """Take what was picked, as (picked, columns)."""
        rows = torch.arange(length) if picks is None else picks
        self._strata.append((rows + self.seen) // self.width)
        self._chunks.append(values.to("cpu", torch.float64, copy=True))
        self.taken += len(rows)
        self.seen += length
        self._keep_within_bounds()

    def values(self) -> torch.Tensor:
        """What was taken, in the order of the stream, as (taken, columns)."""
        if len(self._chunks) != 1:
            self._chunks = [
                torch.cat([torch.empty(0, self.columns, dtype=torch.float64), *self._chunks])
            ]
        return self._chunks[0]

    def merge(self, other: Sample) -> None:
        while self.width < other.width:
            self._thin()
        while other.width < self.width:
            other._thin()
        self._strata += [each + -(-self.seen // self.width) for each in other._strata]
        self._chunks += other._chunks
        self.taken += other.taken
        self.seen += other.seen
        self.in_order = False
        self._keep_within_bounds()

    def collapse(self) -> None:
        """All columns as one."""
        values = self.values().reshape(-1, 1)
        step = max(1, -(-len(values) // MOST_SAMPLED))
        self._chunks = [values[::step]]
        self.taken = len(self._chunks[0])
        self._strata = [torch.arange(self.taken)]
        self.width *= step
        self.seen *= self.columns
        self.columns, self.in_order = 1, False

    def _keep_within_bounds(self) -> None:
        while self.taken > MOST_SAMPLED:
            self._thin()

    def _thin(self) -> None:
        strata = torch.cat([torch.empty(0, dtype=torch.int64), *self._strata])
        pairs = strata >> 1
        chosen = (strata & 1) == (_scatter(pairs, 2 * self.width) & 1)
        self._chunks, self._strata = [self.values()[chosen]], [pairs[chosen]]
        self.taken = len(self._strata[0])
        self.width *= 2


def _scatter(numbers: torch.Tensor, width: int) -> torch.Tensor:
    """A number below `width` for each number: a multiplicative hash, which wraps around at 64 bits."""
    mixed = (numbers + width) * 6364136223846793005 + 1442695040888963407
    mixed = (mixed ^ (mixed >> 29)) * 2862933555777941757
    return ((mixed >> 33) & 0x3FFFFFFF) % width
