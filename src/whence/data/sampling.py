"""A bounded sample of a stream, chosen by row number: reproducible, without random streams.

The stream is cut into strata of equal width. A hash picks one row per stratum, so that a periodic
pattern does not align with the sample. When the sample is full, every other row is dropped and the
strata double.
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
        """Pick some of the next `length` observations; None for all of them."""
        if self.width == 1:
            return None
        strata = torch.arange(self.seen // self.width, (self.seen + length - 1) // self.width + 1)
        places = strata * self.width + _scatter(strata, self.width)
        return places[(places >= self.seen) & (places < self.seen + length)] - self.seen

    def add(self, values: torch.Tensor, picks: torch.Tensor | None, length: int) -> None:
        """Add the picked observations, as (picked, columns)."""
        rows = torch.arange(length) if picks is None else picks
        self._strata.append((rows + self.seen) // self.width)
        self._chunks.append(values.to("cpu", torch.float64, copy=True))
        self.taken += len(rows)
        self.seen += length
        self._keep_within_bounds()

    def values(self) -> torch.Tensor:
        """Return the sample in stream order, as (taken, columns)."""
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
        """Merge all columns into one."""
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
    """Hash each number to one below `width`; the multiplication wraps around at 64 bits."""
    mixed = (numbers + width) * 6364136223846793005 + 1442695040888963407
    mixed = (mixed ^ (mixed >> 29)) * 2862933555777941757
    return ((mixed >> 33) & 0x3FFFFFFF) % width
