"""A contract as a small file to read, commit and edit: one line per column, clear errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from whence.data.leaves import Name
from whence.data.terms import LEVELS, ColumnTerms, ContractError, LeafTerms, Role, Terms

SCHEMA = 1
ORDER = ("column", *(field.name for field in fields(ColumnTerms) if field.name != "name"))
LEAF_KEYS = ("shape", "dtype", "rows", "optional", "frame", "columns")
TOP_KEYS = ("schema", "levels", "leaves")


def write(terms: Terms) -> str:
    """Serialise the document; the same terms always give the same text."""
    leaves = ",\n".join(
        f"    {_json(path)}: {_write_leaf(leaf)}" for path, leaf in terms.leaves.items()
    )
    body = f"{{\n{leaves}\n  }}" if leaves else "{}"
    return f'{{\n  "schema": {SCHEMA},\n  "levels": {_json(LEVELS)},\n  "leaves": {body}\n}}\n'


def _write_leaf(leaf: LeafTerms) -> str:
    said: dict[str, Any] = {
        "shape": None if leaf.shape is None else list(leaf.shape),
        "dtype": leaf.dtype,
        "rows": leaf.rows,
        "optional": leaf.is_optional or None,
        "frame": leaf.is_frame or None,
    }
    lines = [
        f"      {_json(key)}: {_json(value)}" for key, value in said.items() if value is not None
    ]
    if leaf.columns:
        columns = ",\n".join(f"        {_write_column(column)}" for column in leaf.columns)
        lines.append(f'      "columns": [\n{columns}\n      ]')
    return "{\n" + ",\n".join(lines) + "\n    }"


def _write_column(column: ColumnTerms) -> str:
    said = {"column": column.name, **{name: getattr(column, name) for name in ORDER[1:]}}
    return _json({key: value for key, value in said.items() if value is not None})


def _json(value: Any) -> str:
    return json.dumps(_short(value), ensure_ascii=False, allow_nan=False)


def _short(value: Any) -> Any:
    """Write integral floats without `.0`."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    if isinstance(value, tuple | list):
        return [_short(each) for each in value]
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    return value


def read_document(text: str, source: str) -> Terms:
    """Parse the terms in a document. `source` names it in errors."""
    return _Reader(source).read(text)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source

    def fail(self, where: str, what: str) -> ContractError:
        return ContractError(
            f"{self.source}: {where}: {what}" if where else f"{self.source}: {what}"
        )

    def read(self, text: str) -> Terms:
        document = self._parse(text)
        self._object(document, "", TOP_KEYS)
        if document.get("schema") != SCHEMA or isinstance(document.get("schema"), bool):
            found = _said(document["schema"]) if "schema" in document else "nothing"
            raise self.fail("schema", f"expected {SCHEMA}, got {found}")
        if "levels" in document and document["levels"] != list(LEVELS):
            raise self.fail("levels", f"expected {_json(LEVELS)}, the levels of the quantiles")
        leaves = document.get("leaves", {})
        self._object(leaves, "leaves", None)
        return Terms({path: self._leaf(path, leaf) for path, leaf in leaves.items()})

    def _parse(self, text: str) -> Any:
        def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
            made = dict(found)
            for key in made:
                if sum(each == key for each, _ in found) > 1:
                    raise self.fail("", f"duplicate key {_json(key)} in an object")
            return made

        def constant(name: str) -> Any:
            raise self.fail("", f"{name} is not a JSON number; delete the key to skip this check")

        try:
            return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
        except json.JSONDecodeError as error:
            raise self.fail(
                f"line {error.lineno}, column {error.colno}", f"not JSON: {error.msg}"
            ) from None
        except (RecursionError, ValueError) as error:
            if isinstance(error, ContractError):
                raise
            raise self.fail(
                "", "cannot read the JSON: nested too deeply, or a number is too long"
            ) from None

    def _leaf(self, path: str, leaf: Any) -> LeafTerms:
        where = f"leaves[{_json(path)}]"
        self._object(leaf, where, LEAF_KEYS)
        columns = leaf.get("columns", [])
        if not isinstance(columns, list):
            raise self.fail(f"{where}.columns", f"expected a list, got {_said(columns)}")
        read = [
            self._column(each, f"{where}.columns[{place}]") for place, each in enumerate(columns)
        ]
        names = [column.name for column in read]
        for name in names:
            if names.count(name) > 1:
                raise self.fail(f"{where}.columns", f"duplicate column {_json(name)}")
        rows = self._get(leaf, "rows", where, _is_count, "an integer number of rows, 0 or more")
        return LeafTerms(
            path=path,
            shape=self._shape(leaf, where),
            dtype=self._get(
                leaf, "dtype", where, _is_text, 'the name of a type, such as "float32"'
            ),
            rows=rows,
            is_optional=bool(self._get(leaf, "optional", where, _is_truth, "true or false")),
            is_frame=bool(self._get(leaf, "frame", where, _is_truth, "true or false")),
            columns=tuple(read),
        )

    def _shape(self, leaf: dict[str, Any], where: str) -> tuple[int | str, ...] | None:
        what = 'a list of sizes and names, such as ["N", 3, 32, 32]'
        shape = self._get(leaf, "shape", where, lambda each: isinstance(each, list), what)
        if shape is None:
            return None
        for place, size in enumerate(shape):
            if not _is_count(size) and not (_is_text(size) and size):
                raise self.fail(
                    f"{where}.shape[{place}]", f"expected a size or a name, got {_said(size)}"
                )
        return tuple(shape)

    def _column(self, column: Any, where: str) -> ColumnTerms:
        self._object(column, where, ORDER)
        name: Name | None = self._get(
            column,
            "column",
            where,
            lambda each: _is_text(each) or _is_count(each),
            "a name or an index",
        )
        if name is not None:
            where += f" ({_json(name)})"
        role = self._get(
            column,
            "role",
            where,
            lambda each: each in list(Role),
            " or ".join(_json(str(each)) for each in Role),
        )
        terms = ColumnTerms(
            name=name,
            dtype=self._get(
                column, "dtype", where, _is_text, 'the name of a type, such as "float32"'
            ),
            role=None if role is None else Role(role),
            categories=self._categories(column, where),
            quantiles=self._quantiles(column, where),
        )
        figures: dict[str, Any] = {}
        for keys, fits, expected in (
            (("min", "max", "mean"), _is_number, "a number"),
            (("std", "tolerance"), _is_positive, "a number, 0 or more"),
            (("missing", "infinite"), _is_share, "a share from 0 to 1"),
        ):
            for key in keys:
                number = self._get(column, key, where, fits, expected)
                figures[key] = None if number is None else float(number)
        terms = replace(terms, **figures)
        if terms.min is not None and terms.max is not None and terms.min > terms.max:
            raise self.fail(
                f"{where}.min",
                f"expected at most max ({_json(terms.max)}), got {_json(terms.min)}",
            )
        return terms

    def _quantiles(self, column: dict[str, Any], where: str) -> tuple[float, ...] | None:
        what = f"{len(LEVELS)} ascending numbers, at the levels {_json(LEVELS)}"
        found = self._get(column, "quantiles", where, lambda each: isinstance(each, list), what)
        if found is None:
            return None
        if len(found) != len(LEVELS) or not all(map(_is_number, found)) or sorted(found) != found:
            raise self.fail(f"{where}.quantiles", f"expected {what}, got {_said(found)}")
        return tuple(float(each) for each in found)

    def _categories(self, column: dict[str, Any], where: str) -> dict[str, float | None] | None:
        what = 'categories with their shares, such as {"red": 0.7, "blue": 0.3}, or a list of them'
        found = self._get(
            column, "categories", where, lambda each: isinstance(each, dict | list), what
        )
        if found is None:
            return None
        where += ".categories"
        if isinstance(found, list):
            for place, each in enumerate(found):
                if not isinstance(each, str | int):
                    raise self.fail(f"{where}[{place}]", f"expected a category, got {_said(each)}")
            return {_json(each) if isinstance(each, bool) else str(each): None for each in found}
        for name, share in found.items():
            if share is not None and not _is_share(share):
                raise self.fail(
                    f"{where}[{_json(name)}]",
                    f"expected a share from 0 to 1, or null, got {_said(share)}",
                )
        return dict(found)

    def _get(
        self,
        thing: dict[str, Any],
        key: str,
        where: str,
        fits: Callable[[Any], bool],
        expected: str,
    ) -> Any:
        found = thing.get(key)
        if found is not None and not fits(found):
            raise self.fail(f"{where}.{key}", f"expected {expected}, got {_said(found)}")
        return found

    def _object(self, thing: Any, where: str, keys: tuple[str, ...] | None) -> None:
        if not isinstance(thing, dict):
            raise self.fail(where, f"expected an object in braces, got {_said(thing)}")
        for key in thing:
            if keys is not None and key not in keys:
                raise self.fail(
                    where, f"unknown key {_json(key)}; valid keys are {', '.join(keys)}"
                )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    # An integer may be too large for a float.
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) < sys.float_info.max
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_positive(value: Any) -> bool:
    return _is_number(value) and bool(value >= 0)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _said(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 60 else f"{text[:57]}..."
