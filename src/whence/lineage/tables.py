"""Tables and columns of pandas, read without importing it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

NUMBERS = "iufb"


def is_table(thing: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and type(thing) is getattr(pandas, "DataFrame", None)


def is_column(thing: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and type(thing) is getattr(pandas, "Series", None)


def numbers_of(thing: Any, column: str = "") -> list[Any] | None:
    """The columns of numbers, as arrays; of a table only the named one. None for what is neither table nor column."""
    if is_column(thing):
        held = [thing]
    elif is_table(thing):
        held = [
            thing.iloc[:, number]
            for number, name in enumerate(thing.columns)
            if column in ("", name)
        ]
    else:
        return None
    return [_as_array(each) for each in held if getattr(each.dtype, "kind", "") in NUMBERS]


def _as_array(column: Any) -> Any:
    if type(column.dtype).__module__.startswith("pandas"):
        # Int64, Float64 and boolean with a capital: numbers, or NA.
        return column.to_numpy(dtype=float, na_value=float("nan"))
    return column.to_numpy()


def shown_in(thing: Any, column: str, test: Callable[[Any], bool]) -> bool | None:
    """Whether a test shows in a column. Of a table it is not known in which one, unless it is named: others are as they like."""
    columns = numbers_of(thing, column)
    if columns is None or not any(test(each) for each in columns):
        return None if columns is None else False
    return True if column or is_column(thing) else None


def name_of_column(table: Any, number: int) -> str | None:
    name = table.columns[number] if is_table(table) and number < table.shape[1] else None
    return name if isinstance(name, str) else None


def labels_in(row: Any, test: Callable[[Any], bool]) -> list[str]:
    """The names of those numbers of a row that a test shows in."""
    return [
        name
        for name, each in row.items()
        if isinstance(name, str) and isinstance(each, float) and test(each)
    ]
