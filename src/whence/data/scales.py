"""Columns with a changed distribution, and a map that explains it: scale, shift or logarithm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whence.data import chance
from whence.data.departure import Kind, Sighting
from whence.data.facts import Facts
from whence.data.ranges import looks_standardised
from whence.data.terms import LEVELS, ColumnTerms
from whence.finding import Severity

BODY = slice(1, 6)
"""The levels from 5 % to 95 %."""
ROUNDED = 6e-4
STEEPER = math.log(1.25)
MOVED = 0.25
APART = 0.15
FEWEST_TO_BIN = 50
SURE_SQUARES = 70.0

LOGARITHMS: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("log", math.log),
    ("log1p", math.log1p),
    ("log10", math.log10),
    ("log2", math.log2),
)
FACTORS = (100.0, 1e3, 1e6, 1e9, 60.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Line:
    """value = slope * contract + offset, and the distance of the quantiles from it, in spreads."""

    slope: float
    offset: float
    misfit: float


def distance(terms: ColumnTerms, facts: Facts) -> float:
    """Largest gap between the cumulative distributions at the contract's quantiles.

    Ties and rounding count in favour of no gap.
    """
    if terms.quantiles is None or not len(facts.sample):
        return 0.0
    found = 0.0
    for level, value in zip(LEVELS, terms.quantiles, strict=True):
        grain = _grain(terms, value)
        low, high = facts.share_below(value - grain), facts.share_up_to(value + grain)
        found = max(found, low - level, level - high)
    return found


def is_another(terms: ColumnTerms, facts: Facts, fitted: int, doubt: float = 1.0) -> bool:
    """Whether chance cannot explain the difference. A smaller `doubt` needs less evidence."""
    old, new = terms.sampled(fitted), facts.independent
    if distance(terms, facts) > doubt * chance.of_distance(old, new):
        return True
    return (
        min(old, new) >= FEWEST_TO_BIN and _squares(terms, facts, old, new) > doubt * SURE_SQUARES
    )


def compare_distribution(
    leaf: str, terms: ColumnTerms, facts: Facts, fitted: int, doubt: float = 1.0
) -> Sighting | None:
    """Explain a column whose distribution differs; None if it does not, or only slightly."""
    if terms.quantiles is None:
        return _compare_moments(leaf, terms, facts, fitted)
    if not is_another(terms, facts, fitted, doubt):
        return None
    data = facts.quantiles(LEVELS)
    if data is None:
        return None
    apart = distance(terms, facts)
    noise = math.sqrt(1 / max(1, terms.sampled(fitted)) + 1 / max(1, facts.independent))
    line = _fit(terms.quantiles[BODY], data[BODY])
    numbers = {"distance": apart, "median": data[3], "contract median": terms.quantiles[3]}
    if (
        line is not None
        and 2 / 3 < line.slope < 1.5
        and _is_whole(facts.sample.tolist())
        and not _is_whole(terms.quantiles)
    ):
        said = "probably rounded to integers"
        return Sighting(leaf, terms.name, Kind.DISTRIBUTION, Severity.WARNING, said, numbers)
    if line is None or line.misfit > min(0.5, 0.1 + 4 * noise):
        found = _logarithm(leaf, terms, data, noise, line)
        if found is not None:
            return found
        return (
            Sighting(leaf, terms.name, Kind.DISTRIBUTION, Severity.WARNING, "", numbers)
            if apart > APART
            else None
        )
    return _told(leaf, terms, facts, line, data[3] - terms.quantiles[3])


def _told(leaf: str, terms: ColumnTerms, facts: Facts, line: Line, moved: float) -> Sighting | None:
    numbers = {
        "a": line.slope,
        "b": line.offset,
        "misfit": line.misfit,
        "moved": moved,
        "std": terms.std,
    }
    if abs(math.log(line.slope)) > STEEPER:
        if terms.std is None:
            return None
        story = _cause(terms, facts, line)
        severe = bool(story) or not 0.5 < line.slope < 2
        return Sighting(
            leaf,
            terms.name,
            Kind.SCALE,
            Severity.ERROR if severe else Severity.WARNING,
            story,
            numbers,
        )
    spread = terms.spread
    if terms.mean is None or not spread or abs(moved) < MOVED * spread:
        return None
    severity = Severity.ERROR if abs(moved) > 5 * spread else Severity.WARNING
    return Sighting(
        leaf, terms.name, Kind.SHIFT, severity, "", {**numbers, "spreads": moved / spread}
    )


def _compare_moments(leaf: str, terms: ColumnTerms, facts: Facts, fitted: int) -> Sighting | None:
    """Compare mean and deviation if there are no quantiles; report only clear differences."""
    rows = facts.independent
    if rows < FEWEST_TO_BIN or fitted < FEWEST_TO_BIN or not facts.std or facts.mean is None:
        return None
    slope = facts.std / terms.std if terms.std else 1.0
    if terms.std and terms.mean is not None and not 1 / 3 < slope < 3:
        return _told(
            leaf,
            terms,
            facts,
            Line(slope, facts.mean - slope * terms.mean, 0.0),
            facts.mean - terms.mean,
        )
    if terms.mean is None:
        return None
    moved = facts.mean - terms.mean
    wide = max(facts.std, terms.std or 0.0)
    if abs(moved) < wide or abs(moved) < 8 * wide * math.sqrt(1 / rows + 1 / fitted):
        return None
    numbers = {"moved": moved, "spreads": moved / wide}
    return Sighting(leaf, terms.name, Kind.SHIFT, Severity.WARNING, "", numbers)


def _fit(contract: tuple[float, ...], data: tuple[float, ...]) -> Line | None:
    """Fit least squares through the quantiles."""
    middle, centre = sum(contract) / len(contract), sum(data) / len(data)
    width = sum((each - middle) ** 2 for each in contract)
    spread = (data[-1] - data[0]) / 3.29
    if not width or not spread:
        return None
    slope = sum((x - middle) * (y - centre) for x, y in zip(contract, data, strict=True)) / width
    if not 0 < slope < math.inf:
        return None
    offset = centre - slope * middle
    misfit = max(abs(y - slope * x - offset) for x, y in zip(contract, data, strict=True)) / spread
    return Line(slope, offset, misfit)


def _logarithm(
    leaf: str, terms: ColumnTerms, data: tuple[float, ...], noise: float, plain: Line | None
) -> Sighting | None:
    """Whether one side is the logarithm of the other, possibly scaled afterwards."""
    assert terms.quantiles is not None
    contract, seen = terms.quantiles[BODY], data[BODY]
    worst = plain.misfit if plain is not None else math.inf
    for source, target, story in (
        (seen, contract, "was probably not applied"),
        (contract, seen, "was applied, but not to the contract's data"),
    ):
        for name, function in LOGARITHMS:
            mapped = _mapped(function, source)
            line = None if mapped is None else _fit(target, mapped)
            if line is None or line.misfit > min(worst / 3, 0.1 + 2 * noise):
                continue
            exact = abs(line.slope - 1) < 0.1 + noise and abs(line.offset) < 0.1 * (
                target[-1] - target[0]
            )
            if exact or name == "log":
                numbers = {
                    "a": line.slope,
                    "b": line.offset,
                    "misfit": line.misfit,
                    "function": name,
                }
                said = f"{name} {story}" if exact else f"a logarithm {story}"
                return Sighting(leaf, terms.name, Kind.SCALE, Severity.ERROR, said, numbers)
    return None


def _mapped(
    function: Callable[[float], float], values: tuple[float, ...]
) -> tuple[float, ...] | None:
    try:
        return tuple(function(each) for each in values)
    except ValueError:
        return None


def _cause(terms: ColumnTerms, facts: Facts, line: Line) -> str:
    """Name the preprocessing that was probably omitted or applied twice."""
    spread = (facts.std or 0.0) or 1.0
    plain = abs(line.offset) < 0.1 * spread or abs(line.offset) < 0.02 * line.slope
    if plain and _near(line.slope, 1 / 255):
        return "probably divided by 255 twice"
    if looks_standardised(terms):
        return "standardise"
    if plain and _near(line.slope, 255):
        return "probably not divided by 255"
    if _near(line.slope, 127.5) and _near(line.offset, 127.5):
        return "probably not rescaled from 0..255 to -1..1"
    if (
        terms.min is not None
        and terms.max is not None
        and abs(terms.min) < 0.01
        and abs(terms.max - 1) < 0.01
    ):
        return "a MinMaxScaler was probably not applied"
    for factor in FACTORS:
        if plain and _near(line.slope, factor):
            return f"probably in another unit, {factor:,.0f} times smaller"
        if plain and _near(line.slope, 1 / factor):
            return f"probably in another unit, {factor:,.0f} times larger"
    if facts.mean is not None and facts.std and abs(facts.mean) < 0.15 and 0.85 < facts.std < 1.15:
        return "probably standardised, unlike the contract's data"
    return ""


def _is_whole(values: Sequence[float]) -> bool:
    return all(each.is_integer() for each in values)


def _near(value: float, wanted: float) -> bool:
    return abs(value / wanted - 1) < 0.05


def _grain(terms: ColumnTerms, value: float) -> float:
    return ROUNDED * (terms.spread or abs(value))


def _squares(terms: ColumnTerms, facts: Facts, old: int, new: int) -> float:
    """Chi-square of both samples between the contract's quantiles; 0 if ties blur the bins."""
    assert terms.quantiles is not None
    if int((facts.sample.diff() == 0).sum()) > len(facts.sample) / 2:
        return 0.0
    shares = []
    for place, value in enumerate(terms.quantiles[BODY], 2):
        grain, following = _grain(terms, value), terms.quantiles[place]
        low, high = facts.share_below(value - grain), facts.share_up_to(value + grain)
        if high - low > 0.02 or following - value < 4 * grain:
            return 0.0
        shares.append((low + high) / 2)
    levels = list(LEVELS[BODY])
    total = 0.0
    for place in range(len(levels) + 1):
        before = _between(levels, place) * old
        after = _between(shares, place) * new
        total += (math.sqrt(old / new) * after - math.sqrt(new / old) * before) ** 2 / (
            before + after
        )
    return total


def _between(shares: list[float], place: int) -> float:
    """Share between two of the edges, or beyond the first or the last."""
    upper = shares[place] if place < len(shares) else 1.0
    return upper - (shares[place - 1] if place else 0.0)
