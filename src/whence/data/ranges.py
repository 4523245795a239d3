"""Out-of-range, missing and infinite values, and columns that became constant."""

from __future__ import annotations

import math
from collections.abc import Iterator

from whence.data import chance
from whence.data.departure import Kind, Sighting
from whence.data.facts import Facts, Outside
from whence.data.numbers import Limits
from whence.data.terms import LEVELS, ColumnTerms
from whence.finding import Severity

SLACK = 0.5
"""Tolerance in spreads for a new maximum beyond the old one."""
FEWEST_FOR_FAR = 100
FAR = 30
"""Tolerance in range widths: no column that ended close to its body extends this far."""
NARROW = 6


def limits_of(columns: tuple[ColumnTerms, ...]) -> Limits:
    """The limits beyond which rows are counted while reading."""
    low, high = [], []
    for each in columns:
        slack = each.tolerance if each.tolerance is not None else SLACK * each.spread
        fixed = each.role is not None or each.categories is not None
        low.append(-math.inf if each.min is None or fixed else each.min - slack)
        high.append(math.inf if each.max is None or fixed else each.max + slack)
    return Limits(tuple(low), tuple(high))


def compare_range(
    leaf: str, terms: ColumnTerms, facts: Facts, fitted: int | None
) -> Iterator[Sighting]:
    for side, outside in (("above", facts.above), ("below", facts.below)):
        if not outside.rows:
            continue
        severity = _gravity(terms, facts, outside, side=side, fitted=fitted)
        if severity is None:
            continue
        row = (
            outside.first
            if severity is Severity.WARNING or terms.tolerance is not None
            else outside.farthest
        )
        value = facts.high if side == "above" else facts.low
        numbers = {
            "value": value,
            "min": terms.min,
            "max": terms.max,
            "rows": outside.rows,
            "of": facts.rows,
            "widths": _widths(terms, value or 0.0),
        }
        yield Sighting(leaf, terms.name, Kind.RANGE, severity, _likely(terms, facts), numbers, row)


def _widths(terms: ColumnTerms, value: float) -> float:
    """Distance outside the range, in widths of the range."""
    low = terms.min if terms.min is not None else value
    high = terms.max if terms.max is not None else value
    beyond = max(value - high, low - value)
    return beyond / (high - low) if high > low else beyond


def _gravity(
    terms: ColumnTerms, facts: Facts, outside: Outside, *, side: str, fitted: int | None
) -> Severity | None:
    if terms.tolerance is not None:
        return Severity.ERROR
    if fitted is None:
        return None
    if _chance_of_extreme(terms, facts, side=side, fitted=fitted) < chance.HARDLY:
        return Severity.ERROR
    crowded = chance.of_all_on_one_side(outside.rows, facts.rows, fitted) < chance.NEVER
    return Severity.WARNING if crowded else None


def _chance_of_extreme(terms: ColumnTerms, facts: Facts, *, side: str, fitted: int) -> float:
    """Probability of the farthest value under the tail of the contract's quantiles."""
    if terms.quantiles is None or fitted < 2 or terms.min is None or terms.max is None:
        return 0.0
    q1, q5, q25, q50, q75, q95, q99 = terms.quantiles
    if side == "above":
        at_95, at_99, end, value = q95 - q50, q99 - q50, terms.max - q50, (facts.high or 0.0) - q50
    else:
        at_95, at_99, end, value = q50 - q5, q50 - q1, q50 - terms.min, q50 - (facts.low or 0.0)
    width = terms.max - terms.min
    half = q75 - q50 if side == "above" else q50 - q25
    if fitted >= FEWEST_FOR_FAR and end < NARROW * half and value > end + FAR * width:
        return 2 * chance.HARDLY
    if at_95 > 0 and at_99 > 0:
        tail = chance.Tail(
            at_95=at_95,
            at_99=max(at_99, at_95),
            end=end,
            fitted=fitted,
            sampled=terms.sampled(fitted),
        )
        return chance.of_value(value, tail, max(facts.observed, 1))
    # Much of the column is at its bound, so there is no tail to extrapolate.
    on_bound = at_99 == end == 0 and q95 > q5 and fitted >= FEWEST_FOR_FAR
    return 2 * chance.HARDLY if on_bound and 0 < FAR * width < value else 0.0


def _likely(terms: ColumnTerms, facts: Facts) -> str:
    low, high = facts.low or 0.0, facts.high or 0.0
    if terms.min is None or terms.max is None:
        return ""
    if terms.min >= -0.05 and 0.5 < terms.max <= 1.05 and low >= 0 and 2 < high <= 255:
        return "probably not divided by 255"
    if looks_standardised(terms):
        return "possibly not standardised"
    return ""


def looks_standardised(terms: ColumnTerms) -> bool:
    if terms.mean is None or terms.std is None:
        return False
    return abs(terms.mean) < 0.15 and 0.85 < terms.std < 1.15


def compare_missing(
    leaf: str, terms: ColumnTerms, facts: Facts, fitted: int | None
) -> Iterator[Sighting]:
    """Check missing and infinite values.

    If the contract has none, one is enough; otherwise only a large increase counts.
    """
    for kind, allowed, count, first in (
        (Kind.MISSING, terms.missing, facts.missing, facts.first_missing),
        (Kind.INFINITE, terms.infinite, facts.infinite, facts.first_infinite),
    ):
        if allowed is None or not count:
            continue
        share = count / facts.values
        numbers = {"share": share, "contract": allowed, "count": count}
        if allowed == 0:
            yield Sighting(leaf, terms.name, kind, Severity.ERROR, "", numbers, first)
        elif fitted is not None and _is_much_more(share, allowed, facts.rows, fitted):
            yield Sighting(leaf, terms.name, kind, Severity.WARNING, "more", numbers, first)


def _is_much_more(share: float, allowed: float, rows: int, fitted: int) -> bool:
    pooled = (share * rows + allowed * fitted) / (rows + fitted)
    error = math.sqrt(pooled * (1 - pooled) * (1 / rows + 1 / max(fitted, 1)))
    return (
        share > 2 * allowed
        and share - allowed > 0.05
        and share - allowed > 7 * error
        and rows >= 30
    )


def compare_constancy(
    leaf: str, terms: ColumnTerms, facts: Facts, fitted: int | None
) -> Iterator[Sighting]:
    """Check for a column that became constant.

    The quantiles bound how much of the contract's column had a single value.
    """
    if facts.low is None or facts.low != facts.high or fitted is None:
        return
    if terms.min is None or terms.max is None or terms.min == terms.max or terms.quantiles is None:
        return
    below = max(
        (level for level, value in zip(LEVELS, terms.quantiles, strict=True) if value < facts.low),
        default=0.0,
    )
    above = min(
        (level for level, value in zip(LEVELS, terms.quantiles, strict=True) if value > facts.low),
        default=1.0,
    )
    mass = min(1.0, above - below + chance.of_distance(fitted, 10**9))
    if mass < 1 and facts.independent * math.log(mass) < chance.NEVER:
        numbers = {"value": facts.low, "rows": facts.rows, "min": terms.min, "max": terms.max}
        yield Sighting(leaf, terms.name, Kind.CONSTANT, Severity.WARNING, "", numbers, 0)
