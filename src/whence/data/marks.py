"""Placeholder values for missing data, such as -9999 in a column of measurements."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from whence.data.facts import Facts

FAR = 20.0
FEWEST = 30
FEWEST_MARKS = 2
MOST_MARKS = 0.5


@dataclass(frozen=True, slots=True)
class Mark:
    value: float
    count: int
    rows: int
    low: float
    """Minimum and maximum of all other values."""
    high: float

    def is_told_apart_by(self, number: float) -> bool:
        """Whether comparing with the value selects exactly the placeholders."""
        return self.value <= number <= self.low or self.high <= number <= self.value

    def text(self, name: str) -> str:
        share = f"{self.count} of {self.rows} rows"
        return (
            f"{name} is {self.value:g} in {share}, and between {self.low:.3g} and "
            f"{self.high:.3g} in the others"
        )


WHY = (
    "A repeated value far from all others usually marks missing measurements. The network "
    "treats it as a measurement, and its magnitude exceeds all real ones."
)
FIX = "Impute the marked values (for example with the mean), or drop their rows, before scaling."


def mark_in(facts: Facts) -> Mark | None:
    """Find a value that a column of measurements repeats, far from all other values."""
    sample = facts.sample
    for mark in (facts.low, facts.high):
        rest = sample[sample != mark]
        count = len(sample) - len(rest)
        # Zero is usual for padding and for features that do not apply.
        if not mark or len(rest) < FEWEST or not FEWEST_MARKS <= count <= MOST_MARKS * len(sample):
            continue
        low, high = float(rest[0]), float(rest[-1])
        if max(low - mark, mark - high) > FAR * (high - low) and _is_measured(rest):
            return Mark(mark, count, len(sample), low, high)
    return None


def _is_measured(rest: torch.Tensor) -> bool:
    """Whether nearly all values differ."""
    return float((rest.diff() > 0).double().mean()) > 0.9
