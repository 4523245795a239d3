"""The terms of a contract, as plain data. A term that is None is not checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from whence.data.leaves import Name
from whence.data.sampling import MOST_SAMPLED

LEVELS: tuple[float, ...] = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BATCH_AXIS = "N"


class ContractError(ValueError):
    """A contract's file or document is invalid."""


class Role(StrEnum):
    INDEX = "index"
    """Rises or falls from row to row, like ids and timestamps: later data have other values."""
    TIME = "time"


@dataclass(frozen=True, slots=True)
class ColumnTerms:
    """One column: its name in a frame, its index in a table, None if the leaf is one column."""

    name: Name | None = None
    dtype: str | None = None
    role: Role | None = None
    min: float | None = None
    max: float | None = None
    tolerance: float | None = None
    """Allowed distance beyond min and max. Hand-written only; otherwise the data's tails decide."""
    mean: float | None = None
    std: float | None = None
    quantiles: tuple[float, ...] | None = None
    missing: float | None = None
    infinite: float | None = None
    categories: Mapping[str, float | None] | None = None
    """Each category's share; None if it is not checked."""

    @property
    def spread(self) -> float:
        """Width of the body as a standard deviation, ignoring tails; 0 if unknown."""
        if self.quantiles is not None and len(self.quantiles) == len(LEVELS):
            _, q5, q25, _, q75, q95, _ = self.quantiles
            if q75 > q25:
                return (q75 - q25) / 1.349
            if q95 > q5:
                return (q95 - q5) / 3.29
        return self.std or 0.0

    def sampled(self, fitted: int) -> int:
        """Number of values behind the quantiles."""
        present = round(fitted * (1 - (self.missing or 0.0)))
        return present if present <= MOST_SAMPLED else MOST_SAMPLED // 2


@dataclass(frozen=True, slots=True)
class LeafTerms:
    """One leaf. In `shape`, an integer is a fixed size and a name a variable one."""

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
