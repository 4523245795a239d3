"""A block of values laid out for reduction: one axis of columns, one axis of their values."""

from __future__ import annotations

from dataclasses import dataclass

import torch

FOLDED = 64
EXACT_IN_SINGLE = (torch.uint8, torch.int8, torch.int16, torch.bool)


@dataclass(frozen=True, slots=True)
class Lanes:
    """`along` is the axis over the values of one column: 0 for tables, 1 for images."""

    values: torch.Tensor
    along: int

    @property
    def length(self) -> int:
        return self.values.shape[self.along]

    def spread(self, figures: torch.Tensor) -> torch.Tensor:
        """Reshape one figure per column so that it broadcasts."""
        return figures[:, None] if self.along else figures

    def columns(self, places: torch.Tensor) -> torch.Tensor:
        """Select columns, as (columns, values)."""
        some = self.values.index_select(1 - self.along, places.to(self.values.device))
        return some if self.along else some.T

    def with_columns(self, places: torch.Tensor, columns: torch.Tensor) -> Lanes:
        """Copy with some columns, as (columns, values), replaced."""
        values = self.values.clone()
        if self.along:
            values[places] = columns
        else:
            values[:, places] = columns.T
        return Lanes(values, self.along)

    def picked(self, picks: torch.Tensor | None) -> torch.Tensor:
        """Select some or all values of every column, as (values, columns)."""
        values = self.values.T if self.along else self.values
        return values if picks is None else values[picks.to(values.device)]

    def extremes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the minimum and maximum of each column; NaN if it contains one."""
        if self.along:
            found = torch.aminmax(self.values, dim=1)
            return found.min, found.max
        # Folding a table in halves is twice as fast as reducing it along its long axis.
        low = high = self.values
        while len(low) > FOLDED:
            # With an odd number of rows the middle row is in both halves, which is harmless.
            half = (len(low) + 1) // 2
            low = torch.minimum(low[:half], low[-half:])
            high = torch.maximum(high[:half], high[-half:])
        return low.amin(0), high.amax(0)


def lanes_of(block: torch.Tensor) -> Lanes:
    """Lay out (rows, columns, inner) as floats that hold the values (nearly) exactly."""
    rows, columns, inner = block.shape
    along = int(inner > 1 and columns > 1)
    if along:
        values = block.transpose(0, 1).reshape(columns, rows * inner)
    elif inner > 1:
        values = block.reshape(rows * inner, 1)
    else:
        values = block.squeeze(2)
    if values.dtype not in (torch.float32, torch.float64):
        single = values.dtype.is_floating_point or values.dtype in EXACT_IN_SINGLE
        values = values.to(torch.float32 if single else torch.float64)
    return Lanes(values, along)
