"""What departs from a contract, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from whence.data.leaves import Name
from whence.finding import Severity


class Kind(StrEnum):
    MISSING_LEAF = "missing-leaf"
    UNEXPECTED_LEAF = "unexpected-leaf"
    MISSING_COLUMN = "missing-column"
    UNEXPECTED_COLUMN = "unexpected-column"
    ORDER = "order"
    SHAPE = "shape"
    DTYPE = "dtype"
    RANGE = "range"
    SCALE = "scale"
    SHIFT = "shift"
    DISTRIBUTION = "distribution"
    MISSING = "missing"
    INFINITE = "infinite"
    NEW_CATEGORY = "new-category"
    LOST_CATEGORY = "lost-category"
    CONSTANT = "constant"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Departure:
    """One thing that is not as the contract says. `columns` is empty where it is the leaf as a whole."""

    leaf: str
    columns: tuple[Name, ...]
    kind: Kind
    severity: Severity
    message: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    row: int | None = None
    """The first row that offends, counted from 0 over all batches."""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Sighting:
    """A departure of one column, before neighbours with the same story are told as one."""

    leaf: str
    column: Name | None
    kind: Kind
    severity: Severity
    story: str = ""
    """In words, the likely cause. Sightings with different ones are not told together."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    row: int | None = None
    message: str | None = None
    """Said as it is, where there is nothing to put together."""
