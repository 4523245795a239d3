"""Derive the terms of a contract from a summary."""

from __future__ import annotations

import math

from whence.data.facts import Facts
from whence.data.leaves import Name
from whence.data.summary import ArraySummary, LeafSummary, Summary
from whence.data.tally import Category
from whence.data.terms import BATCH_AXIS, LEVELS, ColumnTerms, LeafTerms, Role, Terms

MOST_WHOLE_CATEGORIES = 32
DENSE = 4
FEWEST_IDS = 100


def learn(summary: Summary) -> Terms:
    return Terms(
        {path: _learn_leaf(path, leaf, summary.batches) for path, leaf in summary.leaves.items()}
    )


def _learn_leaf(path: str, leaf: LeafSummary, batches: int) -> LeafTerms:
    is_optional = leaf.batches < batches
    if leaf.frame is not None:
        frame = [_learn_column(column, name=name) for name, column in leaf.frame.items()]
        shape = (BATCH_AXIS, len(leaf.frame))
        return LeafTerms(path, shape, None, leaf.rows, is_optional, True, tuple(frame))
    array = leaf.array or ArraySummary()
    facts = array.facts()
    names: list[Name | None] = [*range(len(facts))] if array.by_column else [None] * len(facts)
    alone = len(facts) == 1
    columns = [
        _terms_of(each, name=name, alone=alone) for name, each in zip(names, facts, strict=True)
    ]
    dtype = next(iter(array.dtypes)) if len(array.dtypes) == 1 else None
    return LeafTerms(
        path, _shape_of(leaf, array), dtype, leaf.rows, is_optional, False, tuple(columns)
    )


def _shape_of(leaf: LeafSummary, array: ArraySummary) -> tuple[int | str, ...] | None:
    if not leaf.has_rows:
        return ()
    first = BATCH_AXIS if leaf.is_even else "A0"
    shapes = list(array.shapes)
    if len({len(shape) for shape in shapes}) != 1:
        return None
    axes = zip(*shapes, strict=True)
    return (
        first,
        *(sizes[0] if len(set(sizes)) == 1 else f"A{axis}" for axis, sizes in enumerate(axes, 1)),
    )


def _learn_column(column: ArraySummary, *, name: Name) -> ColumnTerms:
    dtype = next(iter(column.dtypes)) if len(column.dtypes) == 1 else None
    facts = column.facts()
    return _terms_of(facts[0], name=name, dtype=dtype) if facts else ColumnTerms(name, dtype)


def _terms_of(
    facts: Facts, *, name: Name | None, dtype: str | None = None, alone: bool = False
) -> ColumnTerms:
    missing, infinite = _share(facts.missing, facts.values), _share(facts.infinite, facts.values)
    categories = _categories_of(facts)
    if facts.tally is not None and not facts.is_whole:
        return ColumnTerms(name, dtype, missing=missing, categories=categories)
    if categories is not None:
        return ColumnTerms(name, dtype, missing=missing, infinite=infinite, categories=categories)
    role = _role_of(facts, alone=alone)
    if role is not None or facts.low is None or facts.high is None:
        return ColumnTerms(name, dtype, role, missing=missing, infinite=infinite)
    quantiles = facts.quantiles(LEVELS)
    grain = _grain(ColumnTerms(std=facts.std, quantiles=quantiles).spread)
    return ColumnTerms(
        name,
        dtype,
        role,
        min=_tidy_down(facts.low, grain),
        max=-_tidy_down(-facts.high, grain),
        mean=_tidy_mean(facts.mean, facts.std),
        std=_four_digits(facts.std),
        quantiles=tuple(_tidy(each, grain) for each in quantiles) if quantiles else None,
        missing=missing,
        infinite=infinite,
    )


def _role_of(facts: Facts, *, alone: bool) -> Role | None:
    if facts.is_time:
        return Role.TIME
    if facts.runs_on and not alone:
        return Role.INDEX
    return Role.INDEX if facts.is_whole and _numbers_the_rows(facts) else None


def _numbers_the_rows(facts: Facts) -> bool:
    """Whether these are ids, in any order: integers without repetition that fill their range."""
    if (
        facts.low is None
        or facts.high is None
        or facts.observed != facts.rows
        or facts.rows < FEWEST_IDS
    ):
        return False
    span = facts.high - facts.low + 1
    quartiles = facts.quantiles((0.25, 0.5, 0.75))
    if span > DENSE * facts.rows or quartiles is None or bool((facts.sample.diff() == 0).any()):
        return False
    even = (facts.low + share * span for share in (0.25, 0.5, 0.75))
    return all(abs(one - other) < 0.05 * span for one, other in zip(quartiles, even, strict=True))


def _categories_of(facts: Facts) -> dict[str, float | None] | None:
    tally = facts.tally
    if tally is None or tally.overflowed or not tally.counts:
        return None
    words = not facts.is_whole
    few = len(tally.counts) <= MOST_WHOLE_CATEGORIES and facts.rows >= 5 * len(tally.counts)
    if words and not facts.declared and facts.rows < 2 * len(tally.counts):
        return None
    if not words and not few and not all(isinstance(each, bool) for each in tally.counts):
        return None
    total = sum(tally.counts.values())
    shares: dict[str, float | None] = dict.fromkeys(facts.declared, 0.0)
    for value in sorted(tally.counts, key=lambda each: (isinstance(each, str), each)):
        shares[spelled(value)] = _four_digits(tally.counts[value] / total)
    return shares


def spelled(value: Category) -> str:
    """Format a category as in the file."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _share(count: int, total: int) -> float:
    return _four_digits(count / total) or 0.0 if total else 0.0


def _grain(spread: float) -> float | None:
    """Rounding step of figures: a ten-thousandth of the spread, as a power of ten."""
    return 10.0 ** math.floor(math.log10(spread) - 3) if 0 < spread < math.inf else None


def _tidy(value: float, grain: float | None) -> float:
    """Round to the grain or to four digits, whichever is finer."""
    digits = _decimals(value, 4)
    if grain is not None:
        digits = max(digits, round(-math.log10(grain)))
    return _plain(round(value, digits))


def _tidy_mean(value: float | None, std: float | None) -> float | None:
    if value is None:
        return None
    grain = _grain(std or 0.0)
    return (
        _plain(round(value, round(-math.log10(grain)))) if grain is not None else _tidy(value, None)
    )


def _tidy_down(value: float, grain: float | None) -> float:
    """Round down to the grain: a rounded range must still contain its data."""
    digits = _decimals(value, 4) if grain is None else round(-math.log10(grain))
    tidy = round(value, digits)
    if tidy > value:
        tidy = round(tidy - 10.0**-digits, digits)
    return _plain(tidy if tidy <= value else value)


def _four_digits(value: float | None) -> float | None:
    return None if value is None else _plain(round(value, _decimals(value, 4)))


def _decimals(value: float, digits: int) -> int:
    return (
        digits - 1 - math.floor(math.log10(abs(value)))
        if value and math.isfinite(value)
        else digits
    )


def _plain(value: float) -> float:
    return value + 0.0
