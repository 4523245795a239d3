"""A dataset that has a list of files and a list of labels, and the sheet that the labels were read from: which file they belong to.

A sheet has a row for each file and a column with its name or number. If the labels are in the order of its rows and the files are not,
every file has another one's label.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

FEWEST = 8
MOST_ROWS = 200_000
MOST_FILES = 20_000
MOST_BYTES = 8_000_000
MOST_SHEETS = 4
SHEETS = (".csv", ".tsv", ".txt")
DELIMITERS = (",", ";", "\t", " ")


@dataclass(frozen=True, slots=True)
class Mixed:
    attribute: str
    """The list of files that is in another order than the sheet."""
    sheet: str
    file: str
    label: Any
    told: str
    """What the sheet says of that file."""
    wrong: int
    size: int


def mixed_up(dataset: Any, delivered: dict[int, float]) -> Mixed | None:
    """Looks at attributes and reads files; runs nothing of the program's. `delivered` are the labels of some samples, by index."""
    held = list(vars(dataset).items()) if hasattr(dataset, "__dict__") else []
    lists = {name: plain for name, thing in held if (plain := _plain(thing)) is not None}
    for name, files in lists.items():
        numbers = [number_in(each) for each in files] if _are_paths(files) else []
        if not numbers or None in numbers or len(set(numbers)) < len(numbers):
            continue
        labels = [
            each for other, each in lists.items() if other != name and len(each) == len(files)
        ]
        for path in islice(_sheets_beside(files[0]), MOST_SHEETS) if labels else ():
            columns = _columns(path, len(files))
            named = next(
                (each for each in columns if _is_same(list(map(number_in, each)), numbers)), None
            )
            keys = list(map(number_in, named)) if named is not None else numbers
            for column in columns if keys != numbers else ():
                by_file = dict(zip(keys, column, strict=True))
                said = [by_file[number] for number in numbers]
                for values in labels if column is not named else ():
                    wrong = _wrong(values, column, said, delivered)
                    if len(wrong) > 1:
                        first = wrong[0]
                        return Mixed(
                            name,
                            path,
                            files[first],
                            values[first],
                            said[first],
                            len(wrong),
                            len(files),
                        )
    return None


def _plain(thing: Any) -> list[Any] | None:
    """A list of numbers, words or paths."""
    if len(getattr(thing, "shape", ())) == 1 and hasattr(thing, "tolist"):
        thing = thing.tolist()
    if not isinstance(thing, list | tuple) or not FEWEST <= len(thing) <= MOST_ROWS:
        return None
    kinds = {type(each) for each in thing}
    if len(kinds) != 1 or not issubclass(kinds.pop(), int | float | str | os.PathLike):
        return None
    return [os.fspath(each) if isinstance(each, os.PathLike) else each for each in thing]


def _are_paths(things: list[Any]) -> bool:
    named = isinstance(things[0], str) and all(os.path.splitext(each)[1] for each in things)
    return (
        named and len({os.path.dirname(each) for each in things}) == 1 and os.path.isfile(things[0])
    )


def number_in(text: str) -> int | None:
    """The last number in the name of a file, without folder and ending."""
    found = re.findall(r"\d+", os.path.splitext(os.path.basename(text))[0])
    return int(found[-1]) if found else None


def _sheets_beside(path: str) -> Iterator[str]:
    folder = os.path.dirname(path) or "."
    for place in (folder, os.path.dirname(os.path.abspath(folder))):
        try:
            with os.scandir(place) as entries:
                found = [
                    each
                    for each in islice(entries, MOST_FILES)
                    if each.name.lower().endswith(SHEETS)
                ]
                yield from (
                    each.path
                    for each in found
                    if each.is_file() and each.stat().st_size <= MOST_BYTES
                )
        except OSError:
            continue


def _columns(path: str, size: int) -> list[tuple[str, ...]]:
    """The columns of a sheet that has a row for each file, with or without a row of names above them."""
    try:
        with open(path, encoding="utf-8", newline="") as sheet:
            lines = [each for each in sheet.read().splitlines() if each.strip()]
    except (OSError, UnicodeDecodeError):
        return []
    if len(lines) not in (size, size + 1):
        return []
    for delimiter in DELIMITERS:
        rows = list(csv.reader(lines[len(lines) - size :], delimiter=delimiter))
        if len(rows) == size and len({len(row) for row in rows}) == 1 and len(rows[0]) > 1:
            return list(zip(*rows, strict=True))
    return []


def _is_same(keys: list[int | None], numbers: list[int | None]) -> bool:
    return None not in keys and set(keys) == set(numbers) and len(set(keys)) == len(keys)


def _wrong(
    values: list[Any], rows: tuple[str, ...], said: list[str], delivered: dict[int, float]
) -> list[int]:
    """Which labels are not what a sheet says of their file, if they are a column of it row by row, and delivered like that."""
    if not _goes_with(rows, values) or len(set(values)) < 2 or max(delivered) >= len(values):
        return []
    given = list(delivered.values())
    if not _goes_with([values[k] for k in delivered], given) or _goes_with(
        [said[k] for k in delivered], given
    ):
        # A label that is looked up by the name of its file is right, in whatever order the list of labels is.
        return []
    meaning = dict(zip(rows, values, strict=True))
    return [k for k, text in enumerate(said) if meaning[text] != values[k]]


def _goes_with(texts: Sequence[Any], values: list[Any]) -> bool:
    """Whether each text always has the same value, and each value the same text; where nearly all differ, as numbers."""
    pairs = set(zip(texts, values, strict=True))
    if len(pairs) > len(values) // 2:
        return all(_is_number(text, value) for text, value in pairs)
    return len(pairs) == len({each for each, _ in pairs}) == len({each for _, each in pairs})


def _is_number(text: Any, value: Any) -> bool:
    try:
        return math.isclose(float(text), float(value), rel_tol=1e-5, abs_tol=1e-9)
    except ValueError:
        return False
