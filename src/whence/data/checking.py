"""Compare a summary with the terms of a contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from whence.data.categories import compare_categories
from whence.data.departure import Departure, Kind, Sighting
from whence.data.facts import Facts
from whence.data.leaves import Name
from whence.data.numbers import Limits
from whence.data.order import find_swaps
from whence.data.ranges import compare_constancy, compare_missing, compare_range, limits_of
from whence.data.scales import compare_distribution
from whence.data.structure import (
    compare_columns,
    compare_dtype,
    compare_leaves,
    compare_shape,
    named,
    values_comparable,
    written,
)
from whence.data.summary import ArraySummary, LeafSummary, LimitsOf, Summary
from whence.data.telling import tell
from whence.data.terms import ColumnTerms, LeafTerms, Terms
from whence.finding import Severity

LESS_DOUBT = 0.5
MOVED = (Kind.SCALE, Kind.SHIFT, Kind.DISTRIBUTION)


def summary_for(terms: Terms) -> Summary:
    """Return an empty summary that will count values outside the contract's ranges."""
    return Summary({path: _limits(leaf) for path, leaf in terms.leaves.items()})


def _limits(leaf: LeafTerms) -> LimitsOf:
    by_name = {column.name: column for column in leaf.columns}

    def limits(name: Name | None, columns: int) -> Limits | None:
        if name is not None:
            return limits_of((by_name[name],)) if name in by_name and columns == 1 else None
        return limits_of(leaf.columns) if len(leaf.columns) == columns else None

    return limits


def check(terms: Terms, summary: Summary) -> list[Departure]:
    """Return all departures, most severe first."""
    sightings = list(compare_leaves(terms, summary))
    for path, leaf in summary.leaves.items():
        if path in terms.leaves:
            sightings += _check_leaf(terms.leaves[path], leaf)
    return sorted(tell(sightings), key=lambda each: -each.severity.rank)


def _check_leaf(terms: LeafTerms, leaf: LeafSummary) -> Iterator[Sighting]:
    yield from compare_columns(terms, leaf)
    if terms.is_frame and leaf.frame is None:
        yield _other_form(terms, leaf, f"a frame with {len(terms.columns)} columns")
        return
    if leaf.frame is not None:
        if not terms.is_frame:
            yield _other_form(terms, leaf, "an array")
            return
        yield from _check_frame(terms, leaf.frame)
        return
    shape = list(compare_shape(terms, leaf))
    yield from shape
    if leaf.array is None:
        return
    yield from compare_dtype(terms.path, None, terms.dtype, leaf.array)
    if leaf.array.trouble is not None:
        yield _unchecked(terms.path, None, leaf.array.trouble)
    facts = leaf.array.facts()
    if facts and terms.columns and values_comparable(terms, leaf):
        yield from _check_array(terms, facts)
    elif terms.columns and facts and not shape:
        yield _unchecked(terms.path, None, "its columns differ from the contract's")
    if not leaf.rows:
        yield _unchecked(terms.path, None, "it has no rows")


def _check_frame(terms: LeafTerms, frame: Mapping[Name, ArraySummary]) -> Iterator[Sighting]:
    readable: list[tuple[ColumnTerms, Facts]] = []
    for column in terms.columns:
        array = frame.get(column.name) if column.name is not None else None
        if array is None:
            continue
        yield from compare_dtype(terms.path, column.name, column.dtype, array)
        if array.trouble is not None:
            yield _unchecked(terms.path, column.name, array.trouble)
        readable += [(column, facts) for facts in array.facts()]
    for each in _check_columns(terms, readable):
        yield from each


def _check_array(terms: LeafTerms, facts: list[Facts]) -> Iterator[Sighting]:
    found = _check_columns(terms, list(zip(terms.columns, facts, strict=True)))
    departing = [
        place for place, each in enumerate(found) if any(one.kind in MOVED for one in each)
    ]
    swaps = None
    if terms.rows is not None:
        swaps = find_swaps(terms.path, terms.columns, facts, departing, terms.rows)
    if swaps is not None:
        yield swaps
        explained = (*MOVED, Kind.RANGE, Kind.CONSTANT)
        for place in departing:
            found[place] = [one for one in found[place] if one.kind not in explained]
    for each in found:
        yield from each


def _check_columns(
    terms: LeafTerms, columns: list[tuple[ColumnTerms, Facts]]
) -> list[list[Sighting]]:
    found = [list(_check_column(terms, column, facts)) for column, facts in columns]
    stories = {one.story for each in found for one in each if one.kind is Kind.SCALE and one.story}
    if not stories or terms.rows is None:
        return found
    # If one column is unscaled, less evidence is enough to report the same for its neighbours.
    for place, (column, facts) in enumerate(columns):
        if not _has_scale(column, facts) or any(one.kind in MOVED for one in found[place]):
            continue
        same = compare_distribution(terms.path, column, facts, terms.rows, LESS_DOUBT)
        if same is not None and same.kind is Kind.SCALE and same.story in stories:
            found[place] = [same, *(one for one in found[place] if one.kind is not Kind.RANGE)]
    return found


def _has_scale(column: ColumnTerms, facts: Facts) -> bool:
    return (
        column.role is None
        and column.categories is None
        and facts.low is not None
        and facts.low != facts.high
    )


def _check_column(terms: LeafTerms, column: ColumnTerms, facts: Facts) -> Iterator[Sighting]:
    path, fitted = terms.path, terms.rows
    yield from compare_missing(path, column, facts, fitted)
    yield from compare_categories(path, column, facts, fitted)
    if column.role is not None or column.categories is not None or facts.low is None:
        return
    constant = list(compare_constancy(path, column, facts, fitted))
    moved = None
    if fitted is not None and not constant and _has_scale(column, facts):
        moved = compare_distribution(path, column, facts, fitted)
    yield from constant
    beyond = list(compare_range(path, column, facts, fitted))
    if moved is None:
        yield from beyond
    else:
        yield moved
        if moved.kind is not Kind.SCALE:
            yield from (each for each in beyond if each.severity is Severity.ERROR)


def _other_form(terms: LeafTerms, leaf: LeafSummary, expected: str) -> Sighting:
    if leaf.frame is not None:
        found = f"a frame with {len(leaf.frame)} columns"
    else:
        shape = next(iter(leaf.array.shapes), ()) if leaf.array is not None else ()
        found = f"an array of shape {written((leaf.rows, *shape))}"
    message = f"{named(terms.path)} is {found}, but the contract has {expected}"
    return Sighting(terms.path, None, Kind.SHAPE, Severity.ERROR, message=message)


def _unchecked(path: str, column: Name | None, why: str) -> Sighting:
    message = f"could not check {named(path)}: {why}" if column is None else None
    return Sighting(path, column, Kind.UNCHECKED, Severity.INFO, why, message=message)
