"""Unnamed columns that swapped places: each resembles another column of the contract."""

from __future__ import annotations

from whence.data import chance
from whence.data.departure import Kind, Sighting
from whence.data.facts import Facts
from whence.data.scales import distance
from whence.data.structure import prefix
from whence.data.terms import ColumnTerms
from whence.finding import Severity

MOST_COMPARED = 64


def find_swaps(
    leaf: str,
    columns: tuple[ColumnTerms, ...],
    facts: list[Facts],
    departing: list[int],
    fitted: int,
) -> Sighting | None:
    """Find the one permutation of departing columns that explains all of them."""
    if not 2 <= len(departing) <= MOST_COMPARED:
        return None
    source: dict[int, int] = {}
    for place in departing:
        gaps = {other: distance(columns[other], facts[place]) for other in departing}
        best = min(gaps, key=lambda other: gaps[other])
        noise = chance.of_distance(columns[best].sampled(fitted), facts[place].independent)
        if best == place or gaps[best] > 0.05 + noise / 2 or gaps[place] < 2 * gaps[best] + 0.1:
            return None
        source[place] = best
    if sorted(source.values()) != sorted(departing):
        return None
    shown = ", ".join(f"{place} looks like {other}" for place, other in list(source.items())[:4])
    many = len(source) > 4
    message = f"{prefix(leaf)}columns have swapped places: {shown}" + (
        f" ({len(source)} columns)" if many else ""
    )
    if source == {0: 2, 2: 0} and len(columns) == 3:
        message += "; BGR for RGB?"
    return Sighting(
        leaf, None, Kind.ORDER, Severity.ERROR, "", {"looks like": source}, None, message
    )
