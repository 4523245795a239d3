"""Log-probabilities that data drawn like the contract's look like these.

Random splits of the same data must never depart, whatever their distribution. So nothing here
assumes normality: counts assume exchangeable rows, and distances between distributions use the
Dvoretzky-Kiefer-Wolfowitz bound.
"""

from __future__ import annotations

import math

NEVER = math.log(1e-9)
HARDLY = math.log(1e-6)
PERHAPS = math.log(0.05)
SELDOM = math.log(1e-4)
FEWEST_TO_BE_LIGHT = 2000
SURE_DISTANCE = 3.3
"""Samples of n and m values differ by more than this times sqrt(1/n + 1/m) once in 10^9 times."""


def of_all_on_one_side(hits: int, rows: int, fitted: int) -> float:
    """Probability that `hits` of `rows` new rows have what none of the `fitted` old rows had."""
    hits = min(hits, rows)
    return (
        math.lgamma(rows + 1)
        - math.lgamma(rows - hits + 1)
        - math.lgamma(fitted + rows + 1)
        + math.lgamma(fitted + rows - hits + 1)
    )


def of_distance(fitted: int, rows: int) -> float:
    """Distance between two cumulative distributions beyond chance; above 1 for a few rows."""
    return SURE_DISTANCE * math.sqrt(1 / max(fitted, 1) + 1 / max(rows, 1))


def of_value(distance: float, tail: Tail, values: int) -> float:
    """Probability that the largest of `values` is `distance` away from the median."""
    if distance <= tail.at_99:
        return 0.0
    beyond = math.log(distance / tail.at_99)
    if tail.is_heavy:
        return math.log(values) + math.log(0.01) - beyond / tail.exponent
    return math.log(values) + math.log(0.01) * math.exp(min(beyond * tail.exponent, 700.0))


class Tail:
    """One tail, from its distances from the median at 95 %, at 99 % and at its end.

    A tail lighter than exponential is extended as a stretched exponential, a heavier one as a power
    law, where even a value a hundred times the previous maximum is not surprising. If few rows
    leave it open, the tail is assumed to be heavy.
    """

    def __init__(
        self, *, at_95: float, at_99: float, end: float, fitted: int, sampled: int
    ) -> None:
        # The gap between the two quantiles, and what chance may hide: with 100 rows, almost
        # everything.
        growth = math.log(at_99 / at_95) * (1 + 2 / math.sqrt(0.05 * sampled)) + 80 / sampled
        growth = max(growth, 0.05)
        self.at_99 = at_99
        self.is_heavy = sampled < FEWEST_TO_BE_LIGHT or growth > math.log(
            math.log(0.02) / math.log(0.10)
        )
        if self.is_heavy:
            self.exponent = growth / math.log(5)
            return
        self.exponent = math.log(math.log(0.01) / math.log(0.05)) / growth
        if end > at_99:
            by_end = math.log(math.log(fitted) / -math.log(0.01)) / math.log(end / at_99)
            self.exponent = min(self.exponent, by_end)
