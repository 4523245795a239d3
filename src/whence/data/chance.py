"""How likely it is that data drawn as the contract's were look as these do. All as natural logarithms.

Random splits of the same data must never depart, whatever their distribution. So nothing here assumes a bell curve: the
counts rest on all rows being exchangeable, the distances between distributions on the Dvoretzky-Kiefer-Wolfowitz bound.
"""

from __future__ import annotations

import math

NEVER = math.log(1e-9)
HARDLY = math.log(1e-6)
PERHAPS = math.log(0.05)
SELDOM = math.log(1e-4)
FEWEST_TO_BE_LIGHT = 2000
SURE_DISTANCE = 3.3
"""Two samples of n and m values differ at no point by more than this times sqrt(1/n + 1/m): once in 10^9 times they do."""


def of_all_on_one_side(hits: int, rows: int, fitted: int) -> float:
    """That `hits` of `rows` new rows lie beyond all of the `fitted` old ones, or have what none of the old ones had."""
    hits = min(hits, rows)
    return (
        math.lgamma(rows + 1)
        - math.lgamma(rows - hits + 1)
        - math.lgamma(fitted + rows + 1)
        + math.lgamma(fitted + rows - hits + 1)
    )


def of_distance(fitted: int, rows: int) -> float:
    """The distance between two cumulative distributions that chance does not reach; above 1 for a handful of rows."""
    return SURE_DISTANCE * math.sqrt(1 / max(fitted, 1) + 1 / max(rows, 1))


def of_value(distance: float, tail: Tail, values: int) -> float:
    """That the largest of `values` lies `distance` from the median."""
    if distance <= tail.at_99:
        return 0.0
    beyond = math.log(distance / tail.at_99)
    if tail.is_heavy:
        return math.log(values) + math.log(0.01) - beyond / tail.exponent
    return math.log(values) + math.log(0.01) * math.exp(min(beyond * tail.exponent, 700.0))


class Tail:
    """One tail of a distribution, from its distances from the median at 95 %, at 99 % and at its end.

    A tail that is lighter than an exponential one goes on as a stretched exponential, a heavier one as a power law: there even
    a value a hundred times the largest so far is no surprise. What is not certain for a few rows is taken to be heavy.
    """

    def __init__(
        self, *, at_95: float, at_99: float, end: float, fitted: int, sampled: int
    ) -> None:
        # How far apart the two quantiles are, and what chance may have hidden: with a hundred rows, almost everything.
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
