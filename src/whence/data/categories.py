"""New and lost categories."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from whence.data import chance
from whence.data.departure import Kind, Sighting
from whence.data.facts import Facts
from whence.data.learning import spelled
from whence.data.terms import ColumnTerms
from whence.finding import Severity

A_BATCH = 50
"""Largest serving batch in rows; it has at most a twentieth of the contract's rows as well.

In a serving batch an unknown category is always reported, even if it may just be rare.
"""
MOST_NAMED = 5


def compare_categories(
    leaf: str, terms: ColumnTerms, facts: Facts, fitted: int | None
) -> Iterator[Sighting]:
    if terms.categories is None or facts.tally is None:
        return
    counts = {spelled(value): count for value, count in facts.tally.counts.items()}
    first = {spelled(value): row for value, row in facts.tally.first.items()}
    new = {value: count for value, count in counts.items() if value not in terms.categories}
    if new or facts.tally.overflowed:
        by_chance = not facts.tally.overflowed and _may_be_chance(
            terms.categories, new, facts.rows, fitted
        )
        numbers = {
            "categories": new,
            "more": facts.tally.overflowed,
            "known": len(terms.categories),
        }
        severity = Severity.INFO if by_chance else Severity.ERROR
        row = min((first[value] for value in new), default=None)
        yield Sighting(
            leaf, terms.name, Kind.NEW_CATEGORY, severity, "rare" if by_chance else "", numbers, row
        )
    if fitted is not None and not facts.tally.overflowed:
        lost = dict(_lost(terms.categories, counts, facts.rows, fitted))
        if lost:
            yield Sighting(
                leaf, terms.name, Kind.LOST_CATEGORY, Severity.WARNING, "", {"categories": lost}
            )


def _may_be_chance(
    known: Mapping[str, float | None], new: Mapping[str, int], rows: int, fitted: int | None
) -> bool:
    """Whether these may be rare categories that the contract's data happened to miss."""
    if not fitted:
        return False
    likelihood = min(chance.of_all_on_one_side(count, rows, fitted) for count in new.values())
    if likelihood < chance.SELDOM:
        return False
    once = sum(share is not None and 0 < share * fitted < 1.5 for share in known.values())
    # Good-Turing: unseen categories are about as frequent as those seen exactly once.
    is_open = once * rows / fitted > 0.01
    is_served = rows <= A_BATCH and chance.of_all_on_one_side(1, rows, fitted) < chance.PERHAPS
    return not is_served or is_open or _is_count(known, new)


def _is_count(known: Mapping[str, float | None], new: Mapping[str, int]) -> bool:
    """Whether integers lie among many known ones, or slightly extend a sparse end of the range."""
    try:
        shares = {int(each): share or 0.0 for each, share in known.items()}
        values = [int(each) for each in new]
    except ValueError:
        return False
    low, high = min(shares, default=0), max(shares, default=0)
    rare, little = 0.25 / max(1, len(shares)), (high - low) / 2
    up_to = high + little if shares.get(high, 1.0) < rare else high
    down_to = low - little if shares.get(low, 1.0) < rare else low
    return len(shares) > 4 and all(down_to <= each <= up_to for each in values)


def _lost(
    known: Mapping[str, float | None], counts: Mapping[str, int], rows: int, fitted: int
) -> Iterator[tuple[str, tuple[float, float]]]:
    total = sum(counts.values())
    for value, share in known.items():
        if not share or not total or share * rows < 20:
            continue
        now = counts.get(value, 0) / total
        pooled = (share * fitted + now * rows) / (fitted + rows)
        error = math.sqrt(pooled * (1 - pooled) * (1 / rows + 1 / max(1, fitted)))
        if now < share / 4 and share - now > 6 * error:
            yield value, (share, now)
