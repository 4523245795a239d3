"""What a contract says, as plain data. What is None is not checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from whence.data.leaves import Name
from whence.data.sampling import MOST_SAMPLED

LEVELS: tuple[float, ...] = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BATCH_AXIS = "N"


class ContractError(ValueError):
    """A contract's file or document is not as it must be."""


class Role(StrEnum):
    INDEX = "index"
    """Rises or falls from row to row, as ids and time stamps do: later data have other values, and should."""
    TIME = "time"


@dataclass(frozen=True, slots=True)
class ColumnTerms:
    """One column: by its name in a frame, its place in a table, None where a leaf is one column as a whole."""

    name: Name | None = None
    dtype: str | None = None
    role: Role | None = None
    min: float | None = None
    max: float | None = None
    tolerance: float | None = None
    """How far beyond min and max a value may lie. Written by hand only; without it the tails of the data decide."""
    mean: float | None = None
    std: float | None = None
    quantiles: tuple[float, ...] | None = None
    missing: float | None = None
    infinite: float | None = None
    categories: Mapping[str, float | None] | None = None
    """Each category's share; None for one whose share is not checked."""

    @property
    def spread(self) -> float:
        """The width of its body as a standard deviation would give it, blind to tails; 0 if nothing is known."""
        if self.quantiles is not None and len(self.quantiles) == len(LEVELS):
            _, q5, q25, _, q75, q95, _ = self.quantiles
            if q75 > q25:
                return (q75 - q25) / 1.349
            if q95 > q5:
                return (q95 - q5) / 3.29
        return self.std or 0.0

    def sampled(self, fitted: int) -> int:
        """How many values its quantiles rest on."""
        present = round(fitted * (1 - (self.missing or 0.0)))
        return present if present <= MOST_SAMPLED else MOST_SAMPLED // 2


@dataclass(frozen=True, slots=True)
class LeafTerms:
    """One leaf. A whole number in `shape` is a fixed size, a name one that varies."""

    path: str
    shape: tuple[int | str, ...] | None = None
    dtype: str | None = None
    rows: int | None = None
    is_optional: bool = False
    is_frame: bool = False
    columns: tuple[ColumnTerms, ...] = ()

    @property
    def has_batch_axis(self) -> bool:
        return bool(self.shape) and self.shape is not None and self.shape[0] == BATCH_AXIS


@dataclass(frozen=True, slots=True)
class Terms:
    leaves: Mapping[str, LeafTerms] = field(default_factory=dict)
