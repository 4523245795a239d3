"""A number that stands for what is missing: -9999 in a column of measurements."""

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
    """The lowest and the highest of all others."""
    high: float

    def is_told_apart_by(self, number: float) -> bool:
        """Whether a comparison with a number finds it, and nothing else."""
        return self.value <= number <= self.low or self.high <= number <= self.value

    def text(self, name: str) -> str:
        share = f"{self.count} of {self.rows} rows"
        return f"{name} is {self.value:g} in {share}, and from {self.low:.3g} to {self.high:.3g} elsewhere"


WHY = (
    "One number again and again, far from all others, is what somebody writes where nothing was measured. "
    "The network takes it for a measurement, and it is larger than all of them together."
)
FIX = "Put the mean in its place, or leave the rows out, before anything is scaled."


def mark_in(facts: Facts) -> Mark | None:
    """A number that a column of measurements has again and again, far from all others."""
    sample = facts.sample
    for mark in (facts.low, facts.high):
        rest = sample[sample != mark]
        count = len(sample) - len(rest)
        # Zero is what sequences are padded with, and what a feature is that does not apply.
        if not mark or len(rest) < FEWEST or not FEWEST_MARKS <= count <= MOST_MARKS * len(sample):
            continue
        low, high = float(rest[0]), float(rest[-1])
        if max(low - mark, mark - high) > FAR * (high - low) and _is_measured(rest):
            return Mark(mark, count, len(sample), low, high)
    return None


def _is_measured(rest: torch.Tensor) -> bool:
    """Nearly all of them differ."""
    return float((rest.diff() > 0).double().mean()) > 0.9
