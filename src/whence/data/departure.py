"""Departures from a contract, as plain data."""

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
    """One departure from the contract. `columns` is empty if it concerns the whole leaf."""

    leaf: str
    columns: tuple[Name, ...]
    kind: Kind
    severity: Severity
    message: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    row: int | None = None
    """The first offending row, counted from 0 over all batches."""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Sighting:
    """A departure of one column, before similar columns are merged into one message."""

    leaf: str
    column: Name | None
    kind: Kind
    severity: Severity
    story: str = ""
    """The likely cause, in words. Sightings with different causes are reported separately."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    row: int | None = None
    message: str | None = None
    """A complete message, if there is nothing to merge."""
