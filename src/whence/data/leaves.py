"""The leaves of a batch, with paths as in Python: `[1]`, `['image']`, `.mask`, '' for an array."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from whence.data.arrays import PLAIN, Part, is_array, library_of, read

MOST_FIELDS = 64
MOST_UNNAMED_COLUMNS = 512

Name = str | int


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array, or a frame with named columns."""

    path: str
    part: Part | None = None
    frame: tuple[tuple[Name, Part], ...] | None = None

    @property
    def rows(self) -> int:
        if self.part is not None:
            return self.part.rows
        return self.frame[0][1].rows if self.frame else 0

    @property
    def shape(self) -> tuple[int, ...]:
        if self.part is not None:
            return self.part.shape
        return (self.rows, len(self.frame or ()))

    def as_one_row(self) -> Leaf:
        if self.part is not None:
            return Leaf(self.path, self.part.as_one_row())
        return Leaf(
            self.path, frame=tuple((name, part.as_one_row()) for name, part in self.frame or ())
        )


def leaves_of(tree: Any, path: str = "") -> Iterator[Leaf]:
    """Walk dicts, lists, tuples, named tuples and dataclasses down to arrays and frames."""
    columns = columns_of(tree)
    if columns is not None:
        yield Leaf(path, frame=tuple(columns))
    elif is_array(tree):
        yield Leaf(path, read(tree))
    elif isinstance(tree, Mapping):
        for key in tree:
            yield from leaves_of(tree[key], f"{path}[{key!r}]")
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            yield from leaves_of(getattr(tree, field.name), f"{path}.{field.name}")
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        for name, each in zip(tree._fields, tree, strict=True):
            yield from leaves_of(each, f"{path}.{name}")
    elif isinstance(tree, tuple | list) and not is_plain_list(tree) and len(tree) <= MOST_FIELDS:
        for number, each in enumerate(tree):
            yield from leaves_of(each, f"{path}[{number}]")
    else:
        yield Leaf(path, read(tree))


def is_plain_list(tree: Any) -> bool:
    """Whether a list holds numbers, words or rows of them, and is thus one array."""
    if not isinstance(tree, list):
        return False
    return all(isinstance(each, PLAIN) or is_plain_list(each) for each in tree)


def is_frame(thing: Any) -> bool:
    if library_of(thing) in ("pandas", "polars"):
        return type(thing).__name__ == "DataFrame"
    return getattr(getattr(thing, "dtype", None), "names", None) is not None


def columns_of(thing: Any) -> list[tuple[Name, Part]] | None:
    """Return the columns of a frame (pandas, polars, structured array) by name, or None."""
    if not is_frame(thing):
        return None
    if library_of(thing) == "pandas":
        return _distinct(
            [(name, read(thing.iloc[:, place])) for place, name in enumerate(thing.columns)]
        )
    names = thing.columns if library_of(thing) == "polars" else thing.dtype.names
    return [(name, read(thing[name])) for name in names]


def _distinct(columns: list[tuple[Any, Part]]) -> list[tuple[Name, Part]]:
    """Make names unique text or integers; a duplicate gets a number."""
    found: dict[Name, Part] = {}
    for name, part in columns:
        plain: Name = (
            name if isinstance(name, str | int) and not isinstance(name, bool) else str(name)
        )
        number = 2
        distinct = plain
        while distinct in found:
            distinct = f"{plain} ({number})"
            number += 1
        found[distinct] = part
    return list(found.items())
