"""Leaves, columns, shapes and types: departures that one row proves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from whence.data.departure import Kind, Sighting
from whence.data.leaves import Name
from whence.data.summary import ArraySummary, LeafSummary, Summary
from whence.data.terms import BATCH_AXIS, LeafTerms, Terms
from whence.finding import Severity


def compare_leaves(terms: Terms, summary: Summary) -> Iterator[Sighting]:
    """Check for missing and unexpected leaves."""
    for path, leaf in terms.leaves.items():
        if path not in summary.leaves and not leaf.is_optional:
            yield _leaf_sighting(
                path, Kind.MISSING_LEAF, Severity.ERROR, f"{named(path)} is missing"
            )
    for path in summary.leaves:
        if path not in terms.leaves:
            said = f"{named(path)} is not in the contract"
            yield _leaf_sighting(path, Kind.UNEXPECTED_LEAF, Severity.WARNING, said)


def compare_shape(terms: LeafTerms, leaf: LeafSummary) -> Iterator[Sighting]:
    if terms.shape is None or leaf.array is None:
        return
    rows = () if not leaf.has_rows else ((leaf.rows,) if leaf.batches == 1 else (BATCH_AXIS,))
    for shape, row in leaf.array.shapes.items():
        whole = (*rows, *shape)
        what = _misfit(terms.shape, whole)
        if what is None:
            continue
        message = (
            f"{named(terms.path)} has shape {written(whole)}, but the contract has "
            f"{written(terms.shape)}: {what}"
        )
        numbers = {"shape": whole, "contract": terms.shape}
        yield _leaf_sighting(terms.path, Kind.SHAPE, Severity.ERROR, message, numbers, row)
        return
    if leaf.uneven is not None and terms.has_batch_axis:
        row, length, others = leaf.uneven
        message = (
            f"{named(terms.path)} has {length} rows in a batch, but the first leaf has {others}"
        )
        yield _leaf_sighting(
            terms.path,
            Kind.SHAPE,
            Severity.ERROR,
            message,
            {"rows": length, "first leaf": others},
            row,
        )


def _misfit(contract: tuple[int | str, ...], shape: tuple[int | str, ...]) -> str | None:
    if len(shape) != len(contract):
        return f"{len(shape)} axes instead of {len(contract)}"
    wrong = [
        axis
        for axis, (size, wanted) in enumerate(zip(shape, contract, strict=True))
        if isinstance(wanted, int) and isinstance(size, int) and size != wanted
    ]
    if not wrong:
        return None
    if len(shape) == 4 and shape[3] == contract[1] and shape[3] != shape[1]:
        return "the channels are last"
    if sorted(map(str, shape[1:])) == sorted(map(str, contract[1:])):
        return "its axes are in another order"
    return ", ".join(f"axis {axis} has size {shape[axis]}, not {contract[axis]}" for axis in wrong)


def compare_columns(terms: LeafTerms, leaf: LeafSummary) -> Iterator[Sighting]:
    """Check a frame's columns by name: missing, unexpected, in another order."""
    if leaf.frame is None or not terms.is_frame:
        return
    wanted: list[Name] = [column.name for column in terms.columns if column.name is not None]
    present = list(leaf.frame)
    for name in wanted:
        if name not in leaf.frame:
            yield Sighting(terms.path, name, Kind.MISSING_COLUMN, Severity.ERROR)
    for name in present:
        if name not in wanted:
            yield Sighting(terms.path, name, Kind.UNEXPECTED_COLUMN, Severity.WARNING)
    here, there = (
        [name for name in present if name in wanted],
        [name for name in wanted if name in leaf.frame],
    )
    if here != there:
        moved = [(one, other) for one, other in zip(here, there, strict=True) if one != other]
        one, other = moved[0]
        message = (
            f"{prefix(terms.path)}columns are in another order: found {one!r} where the "
            f"contract has {other!r}" + (f", {len(moved)} columns in all" if len(moved) > 2 else "")
        )
        yield _leaf_sighting(
            terms.path, Kind.ORDER, Severity.ERROR, message, {"order": here, "contract": there}
        )


def compare_dtype(
    path: str, column: Name | None, dtype: str | None, array: ArraySummary
) -> Iterator[Sighting]:
    """Check the type.

    Where columns have types of their own (frames), only another kind of type is severe.
    """
    if dtype is None or not array.dtype_matters:
        return
    for found, row in array.dtypes.items():
        if found == dtype:
            continue
        grave = _family(found) != _family(dtype) or (_family(found) == "float" and column is None)
        severity = (
            Severity.ERROR if grave and not _is_loose(found, dtype, column) else Severity.WARNING
        )
        yield Sighting(
            path, column, Kind.DTYPE, severity, f"{found}, but the contract has {dtype}", {}, row
        )
        return


def _is_loose(found: str, dtype: str, column: Name | None) -> bool:
    """Group types: in a frame, missing integers make floats, and text has many types."""
    families = {_family(found), _family(dtype)}
    return column is not None and families in ({"int", "float"}, {"int", "bool"}, {"text"})


def _family(dtype: str) -> str:
    plain = dtype.lower()
    for family, starts in (
        ("int", ("int", "uint")),
        ("float", ("float", "bfloat", "double")),
        ("bool", ("bool",)),
        ("text", ("str", "object", "category", "string")),
        ("time", ("datetime", "date")),
    ):
        if plain.startswith(starts):
            return family
    return plain


def values_comparable(terms: LeafTerms, leaf: LeafSummary) -> bool:
    """Whether these columns' statistics are comparable with the contract's."""
    if terms.is_frame:
        return leaf.frame is not None
    if leaf.array is None:
        return False
    if leaf.array.numbers is None:
        return len(terms.columns) == 1
    by_column = any(column.name is not None for column in terms.columns)
    return by_column == leaf.array.by_column and len(terms.columns) == leaf.array.numbers.columns


def named(path: str) -> str:
    return path or "the data"


def prefix(path: str) -> str:
    return f"{path} " if path else ""


def written(shape: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _leaf_sighting(
    path: str,
    kind: Kind,
    severity: Severity,
    message: str,
    numbers: Mapping[str, object] | None = None,
    row: int | None = None,
) -> Sighting:
    return Sighting(path, None, kind, severity, "", numbers or {}, row, message)
