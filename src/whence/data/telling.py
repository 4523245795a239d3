"""Word departures; similar columns with the same cause share one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from whence.data.departure import Departure, Kind, Sighting
from whence.data.leaves import Name

MOST_LISTED = 4


@dataclass(frozen=True, slots=True)
class Subject:
    text: str
    is_plural: bool

    def __str__(self) -> str:
        return self.text

    def verb(self, one: str, many: str) -> str:
        return f"{self.text} {many if self.is_plural else one}"


def tell(sightings: Iterable[Sighting]) -> list[Departure]:
    groups: dict[tuple[Any, ...], list[Sighting]] = {}
    for each in sightings:
        key = (each.leaf, each.kind, each.severity, each.story, each.message, _apart(each))
        groups.setdefault(key, []).append(each)
    return [_departure(group) for group in groups.values()]


def _apart(sighting: Sighting) -> Name | None:
    """Separate departures that never merge: new and lost categories."""
    return sighting.column if sighting.kind in (Kind.NEW_CATEGORY, Kind.LOST_CATEGORY) else None


def _departure(group: list[Sighting]) -> Departure:
    first = group[0]
    columns = tuple(dict.fromkeys(each.column for each in group if each.column is not None))
    message = first.message or TELLERS[first.kind](subject_of(first.leaf, columns), group)
    numbers = first.numbers if len(group) == 1 else _together(group)
    row = min((each.row for each in group if each.row is not None), default=None)
    return Departure(first.leaf, columns, first.kind, first.severity, message, numbers, row)


def _together(group: list[Sighting]) -> dict[str, Any]:
    """Collect each figure over all columns, in their order."""
    return {key: [each.numbers.get(key) for each in group] for key in group[0].numbers}


def subject_of(leaf: str, columns: tuple[Name, ...]) -> Subject:
    before = f"{leaf} " if leaf else ""
    if not columns:
        return Subject(leaf or "the data", is_plural=False)
    if len(columns) == 1:
        return Subject(f"{before}column {columns[0]!r}", is_plural=False)
    return Subject(f"{before}columns {_listed(columns)}", is_plural=True)


def _listed(columns: tuple[Name, ...]) -> str:
    if all(isinstance(each, int) for each in columns):
        return _and(
            [f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in _runs(columns)]
        )
    return _and([repr(each) for each in columns])


def _runs(columns: tuple[Name, ...]) -> list[list[int]]:
    runs: list[list[int]] = []
    for each in sorted(int(each) for each in columns):
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return [part for run in runs for part in ([run] if len(run) > 2 else [[each] for each in run])]


def _and(words: list[str]) -> str:
    if len(words) > MOST_LISTED + 1:
        words = [*words[:MOST_LISTED], f"{len(words) - MOST_LISTED} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def number(value: float | None) -> str:
    """Format a number with two or three digits."""
    if value is None:
        return "?"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    digits = 2 if abs(value) < 100 else 1
    text = f"{value:.{digits}f}" if abs(value) >= 0.01 or not value else f"{value:.2g}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _figures(group: list[Sighting], key: str) -> list[float]:
    return [each.numbers[key] for each in group if each.numbers.get(key) is not None]


def _rows(group: list[Sighting]) -> str:
    row = min((each.row for each in group if each.row is not None), default=None)
    return "" if row is None else f", first in row {row}"


def _because(story: str) -> str:
    return f"; {story}" if story else ""


def _tell_scale(subject: Subject, group: list[Sighting]) -> str:
    story = group[0].story
    if "function" in group[0].numbers:
        return f"{subject.verb('is', 'are')} not on the contract's scale: {story}"
    equation = _equation(group)
    if story == "standardise":
        return (
            f"{subject.verb('looks', 'look')} unscaled: {equation}; a StandardScaler was "
            "probably not applied"
        )
    return f"{subject.verb('has', 'have')} a different scale: {equation}{_because(story)}"


def _equation(group: list[Sighting]) -> str:
    """One equation for similar columns, or the range of its coefficients."""
    slopes, offsets = _figures(group, "a"), _figures(group, "b")
    if max(slopes) < 1.5 * min(slopes):
        slope, offset = sum(slopes) / len(slopes), sum(offsets) / len(offsets)
        wide = slope * max(_figures(group, "std"), default=0.0)
        return f"value = {_term(slope, offset if abs(offset) > 0.01 * wide else 0.0)}"
    spans = (f"{number(min(each))} to {number(max(each))}" for each in (slopes, offsets))
    return "value = a * contract + b with a from {} and b from {}".format(*spans)


def _term(slope: float, offset: float) -> str:
    said = number(abs(offset))
    sign = "-" if offset < 0 else "+"
    return f"{number(slope)} * contract" + (f" {sign} {said}" if said != "0" else "")


def _tell_shift(subject: Subject, group: list[Sighting]) -> str:
    moved, spreads = _figures(group, "moved"), _figures(group, "spreads")
    way = "higher" if moved[0] > 0 else "lower"
    if len(group) == 1:
        far = f"by {number(abs(moved[0]))} ({number(abs(spreads[0]))} times its spread)"
        return f"{subject.verb('is', 'are')} {way} than in the contract {far}"
    far = (
        f"by {number(min(map(abs, spreads)))} to {number(max(map(abs, spreads)))} times their "
        "spread"
    )
    return f"{subject.verb('is', 'are')} shifted from the contract {far}"


def _tell_distribution(subject: Subject, group: list[Sighting]) -> str:
    if group[0].story:
        return f"{subject.verb('is', 'are')} {group[0].story}, unlike the contract's data"
    farthest = max(group, key=lambda each: float(each.numbers["distance"]))
    old, new = farthest.numbers["contract median"], farthest.numbers["median"]
    said = f"median {number(new)} (contract: {number(old)})"
    if len(group) > 1:
        said = f"most in {farthest.column!r}: median {number(new)} (contract: {number(old)})"
    return f"{subject.verb('has', 'have')} a different distribution, beyond scale and shift: {said}"


def _tell_range(subject: Subject, group: list[Sighting]) -> str:
    farthest = max(group, key=lambda each: float(each.numbers["widths"]))
    numbers = farthest.numbers
    said = f"{number(numbers['value'])}, expected {_span(numbers['min'], numbers['max'])}"
    if subject.is_plural:
        said = f"most in {farthest.column!r}: {said}"
    many = max(each.numbers["rows"] for each in group)
    rows = (
        f"row {farthest.row}"
        if many == 1
        else f"{many:,} of {numbers['of']:,} rows, such as row {farthest.row}"
    )
    because = _because(group[0].story)
    return (
        f"{subject.verb('has', 'have')} values outside the contract's range: {said} "
        f"({rows}){because}"
    )


def _span(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"at most {number(high)}" if low is None else f"at least {number(low)}"
    width = high - low
    low, high = (0.0 if abs(each) < 1e-3 * width else each for each in (low, high))
    return f"{number(low)} to {number(high)}"


def _tell_missing(subject: Subject, group: list[Sighting]) -> str:
    return _tell_absent(subject, group, "missing values")


def _tell_infinite(subject: Subject, group: list[Sighting]) -> str:
    return _tell_absent(subject, group, "infinite values")


def _tell_absent(subject: Subject, group: list[Sighting], what: str) -> str:
    share = max(_figures(group, "share"))
    were = "none" if not group[0].story else _share(max(_figures(group, "contract")))
    up_to = "up to " if len(group) > 1 else ""
    return (
        f"{subject.verb('has', 'have')} {what}: {up_to}{_share(share)} "
        f"(contract: {were}){_rows(group)}"
    )


def _share(share: float) -> str:
    return f"{share * 100:.2g} %" if share < 0.995 else "100 %"


def _tell_new_category(subject: Subject, group: list[Sighting]) -> str:
    numbers = group[0].numbers
    new: dict[str, int] = dict(numbers["categories"])
    if numbers["more"]:
        return (
            f"{subject.verb('has', 'have')} far more categories than the contract's "
            f"{numbers['known']}{_rows(group)}"
        )
    shown = _and(
        [
            f"{value!r} ({count:,})"
            for value, count in sorted(new.items(), key=lambda each: -each[1])
        ]
    )
    noun = "a new category" if len(new) == 1 else f"{len(new)} new categories"
    rare = "; rare enough to be missing from the contract by chance" if group[0].story else ""
    return f"{subject.verb('has', 'have')} {noun}: {shown}{_rows(group)}{rare}"


def _tell_lost_category(subject: Subject, group: list[Sighting]) -> str:
    lost: dict[str, tuple[float, float]] = group[0].numbers["categories"]
    shown = _and(
        [f"{value!r} {_share(was)} -> {_share(now)}" for value, (was, now) in lost.items()]
    )
    return (
        f"{subject.verb('has', 'have')} almost lost "
        f"{'a category' if len(lost) == 1 else 'categories'}: {shown}"
    )


def _tell_constant(subject: Subject, group: list[Sighting]) -> str:
    rows = group[0].numbers["rows"]
    value = f"{number(group[0].numbers['value'])} in" if len(group) == 1 else "the same in"
    return (
        f"{subject.verb('is', 'are')} constant, {value} all {rows:,} rows; the contract's data vary"
    )


TELLERS: dict[Kind, Callable[[Subject, list[Sighting]], str]] = {
    Kind.MISSING_COLUMN: lambda subject, _: f"{subject.verb('is', 'are')} missing",
    Kind.UNEXPECTED_COLUMN: lambda subject, _: f"{subject.verb('is', 'are')} not in the contract",
    Kind.DTYPE: lambda subject, group: f"{subject.verb('is', 'are')} {group[0].story}",
    Kind.UNCHECKED: lambda subject, group: f"could not check {subject}: {group[0].story}",
    Kind.SCALE: _tell_scale,
    Kind.SHIFT: _tell_shift,
    Kind.DISTRIBUTION: _tell_distribution,
    Kind.RANGE: _tell_range,
    Kind.MISSING: _tell_missing,
    Kind.INFINITE: _tell_infinite,
    Kind.NEW_CATEGORY: _tell_new_category,
    Kind.LOST_CATEGORY: _tell_lost_category,
    Kind.CONSTANT: _tell_constant,
}
