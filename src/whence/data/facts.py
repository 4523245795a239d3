"""Statistics of one column after reading all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from whence.data.tally import Tally

FEWEST_FOR_ORDER = 20


def _nothing() -> torch.Tensor:
    return torch.empty(0, dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class Outside:
    """Rows with a value beyond a limit: the count, the first one, and the farthest one."""

    rows: int = 0
    first: int | None = None
    farthest: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Column statistics.

    `sample` is sorted and finite; a row with several values of the column (pixels) counts as one
    row.
    """

    rows: int
    observed: int = 0
    missing: int = 0
    infinite: int = 0
    first_missing: int | None = None
    first_infinite: int | None = None
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    std: float | None = None
    sample: torch.Tensor = field(default_factory=_nothing)
    runs_on: bool = False
    """Whether values only rise or only fall from row to row, as in an index or a clock."""
    is_whole: bool = False
    is_time: bool = False
    tally: Tally | None = None
    declared: tuple[str, ...] = ()
    above: Outside = Outside()
    below: Outside = Outside()

    @property
    def values(self) -> int:
        return self.observed + self.missing + self.infinite

    @property
    def independent(self) -> int:
        """Number of independent values: at most one per row, at most the sample size."""
        share = self.observed / self.values if self.values else 0.0
        return min(round(self.rows * share), len(self.sample))

    def quantiles(self, levels: tuple[float, ...]) -> tuple[float, ...] | None:
        if not len(self.sample):
            return None
        places = torch.tensor(levels, dtype=torch.float64) * (len(self.sample) - 1)
        below = places.floor().to(torch.int64)
        above = (below + 1).clamp(max=len(self.sample) - 1)
        weight = places - below
        found = self.sample[below] * (1 - weight) + self.sample[above] * weight
        return tuple(found.tolist())

    def share_below(self, value: float) -> float:
        """Share of smaller values."""
        return int(torch.searchsorted(self.sample, value)) / len(self.sample)

    def share_up_to(self, value: float) -> float:
        """Share of smaller or equal values."""
        return int(torch.searchsorted(self.sample, value, right=True)) / len(self.sample)


def runs_on(values: torch.Tensor) -> bool:
    """Whether enough values, in row order, only rise or only fall for this not to be chance."""
    values = values[torch.isfinite(values)]
    steps = values.diff()
    if int((steps != 0).sum()) < FEWEST_FOR_ORDER:
        return False
    return bool((steps >= 0).all() or (steps <= 0).all())
