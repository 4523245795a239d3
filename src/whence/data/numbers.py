"""Running statistics of numeric columns: one pass in cache-sized blocks, sums in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from whence.data.facts import Facts, Outside, runs_on
from whence.data.lanes import Lanes, lanes_of
from whence.data.sampling import Sample
from whence.data.tally import Tally, count_all, merged

BLOCK = 250_000
"""Values per block. Measured: reading a block of 0.8 MB three times costs one and a half reads."""
NEVER = -1


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of each column beyond which rows are counted."""

    low: tuple[float, ...]
    high: tuple[float, ...]


class Numbers:
    """Numeric columns, as blocks of (rows, columns, inner).

    `inner` is 1 for a table and the number of pixels for images.
    """

    def __init__(
        self, columns: int, *, is_whole: bool, is_time: bool = False, limits: Limits | None = None
    ) -> None:
        self.columns, self.is_whole, self.is_time = columns, is_whole, is_time
        self.rows = 0
        self.values = 0
        self.shift: torch.Tensor | None = None
        self.total = _zeros(columns)
        self.squares = _zeros(columns)
        self.low = _zeros(columns) + torch.inf
        self.high = _zeros(columns) - torch.inf
        self.missing, self.infinite = _counts(columns), _counts(columns)
        self.first_missing, self.first_infinite = _counts(columns) + NEVER, _counts(columns) + NEVER
        self.sample = Sample(columns)
        self.tallies = [Tally() for _ in range(columns)] if is_whole else []
        self.limits = limits
        self.above, self.below = _counts(columns), _counts(columns)
        self.first_above, self.first_below = _counts(columns) + NEVER, _counts(columns) + NEVER
        self.row_of_high, self.row_of_low = _counts(columns) + NEVER, _counts(columns) + NEVER
        if limits is not None:
            self._lowest = torch.tensor(limits.low, dtype=torch.float64)
            self._highest = torch.tensor(limits.high, dtype=torch.float64)

    @property
    def observed(self) -> torch.Tensor:
        """Number of finite values of each column."""
        return self.values - self.missing - self.infinite

    def add(self, values: torch.Tensor) -> None:
        """Add a block of (rows, columns, inner)."""
        rows, columns, inner = values.shape
        step = max(1, BLOCK // max(1, columns * inner))
        for start in range(0, rows, step):
            self._add_block(values[start : start + step], inner)

    def _add_block(self, block: torch.Tensor, inner: int) -> None:
        if not block.numel():
            self.rows += len(block)
            return
        if self.is_whole:
            count_all(self.tallies, block, self.rows)
        raw = lanes = lanes_of(block)
        self._take_sample(lanes)
        low, high = lanes.extremes()
        if not bool(torch.isfinite(high - low).all()):
            lanes, low, high = self._without_nonfinite(lanes, low, high, inner)
        low, high = low.to("cpu", torch.float64), high.to("cpu", torch.float64)
        if self.limits is not None:
            self._count_outside(raw, low, high, inner)
        torch.minimum(self.low, low, out=self.low)
        torch.maximum(self.high, high, out=self.high)
        self._add_moments(lanes)
        self.rows += len(block)
        self.values += lanes.length

    def _take_sample(self, lanes: Lanes) -> None:
        picks = self.sample.picks(lanes.length)
        self.sample.add(lanes.picked(picks), picks, lanes.length)

    def _without_nonfinite(
        self, lanes: Lanes, low: torch.Tensor, high: torch.Tensor, inner: int
    ) -> tuple[Lanes, torch.Tensor, torch.Tensor]:
        """Count non-finite values and replace them by the shift, which adds 0 to the sums."""
        places = (~torch.isfinite(high - low)).nonzero().reshape(-1)
        here = places.cpu()
        values = lanes.columns(places)
        missing, infinite = torch.isnan(values), torch.isinf(values)
        for mask, count, first in (
            (missing, self.missing, self.first_missing),
            (infinite, self.infinite, self.first_infinite),
        ):
            count[here] += mask.sum(1).cpu()
            firsts = first[here]
            _note_first(firsts, mask, self.rows, inner)
            first[here] = firsts
        bad = missing | infinite
        low[places] = values.masked_fill(bad, torch.inf).amin(1)
        high[places] = values.masked_fill(bad, -torch.inf).amax(1)
        if self.shift is None:
            self.shift = torch.where(torch.isfinite(low), low / 2 + high / 2, 0.0).to(
                "cpu", torch.float64
            )
        shift = self.shift[here].to(values.device, values.dtype)
        return lanes.with_columns(places, torch.where(bad, shift[:, None], values)), low, high

    def _add_moments(self, lanes: Lanes) -> None:
        values, along = lanes.values, lanes.along
        if self.shift is None:
            self.shift = values.mean(along).to("cpu", torch.float64)
        shift = self.shift.to(values.device, values.dtype)
        away = values - lanes.spread(shift)
        total, squares = away.sum(along), away.square_().sum(along)
        if values.dtype is torch.float32 and not bool(torch.isfinite(squares).all()):
            self._add_moments(Lanes(values.to(torch.float64), along))
            return
        # Use the shift as rounded to the block's precision, since that was subtracted.
        rounding = shift.to("cpu", torch.float64) - self.shift
        count = lanes.length
        total64, squares64 = total.to("cpu", torch.float64), squares.to("cpu", torch.float64)
        self.squares += squares64 + 2 * rounding * total64 + count * rounding * rounding
        self.total += total64 + count * rounding

    def _count_outside(
        self, lanes: Lanes, low: torch.Tensor, high: torch.Tensor, inner: int
    ) -> None:
        for outside, limit, count, first, farthest, fresh, compare in (
            (
                high > self._highest,
                self._highest,
                self.above,
                self.first_above,
                self.row_of_high,
                high > self.high,
                torch.gt,
            ),
            (
                low < self._lowest,
                self._lowest,
                self.below,
                self.first_below,
                self.row_of_low,
                low < self.low,
                torch.lt,
            ),
        ):
            where = outside.nonzero().reshape(-1)
            if not len(where):
                continue
            values = lanes.columns(where).to("cpu", torch.float64)
            # Non-finite values are counted separately and are on neither side.
            values = torch.where(
                torch.isfinite(values), values, -torch.inf if compare is torch.gt else torch.inf
            )
            by_row = (
                compare(values, limit[where][:, None]).reshape(len(where), -1, inner).any(dim=2)
            )
            count[where] += by_row.sum(1)
            firsts = first[where]
            _note_first(firsts, by_row, self.rows, 1)
            first[where] = firsts
            ends = values.argmax(1) if compare is torch.gt else values.argmin(1)
            farthest[where] = torch.where(fresh[where], self.rows + ends // inner, farthest[where])

    def merge(self, other: Numbers) -> None:
        """Merge another instance, whose rows follow these."""
        for tally, more in zip(self.tallies, other.tallies, strict=False):
            tally.merge(more, self.rows)
        for mine, its in (
            (self.first_missing, other.first_missing),
            (self.first_infinite, other.first_infinite),
            (self.first_above, other.first_above),
            (self.first_below, other.first_below),
        ):
            fresh = (mine == NEVER) & (its != NEVER)
            mine[fresh] = its[fresh] + self.rows
        if other.shift is not None and self.shift is None:
            self.shift, self.total, self.squares = (
                other.shift,
                other.total.clone(),
                other.squares.clone(),
            )
        elif other.shift is not None and self.shift is not None:
            moved, observed = other.shift - self.shift, other.observed
            self.squares += other.squares + 2 * moved * other.total + observed * moved * moved
            self.total += other.total + observed * moved
        for mine, its, fresh in (
            (self.row_of_high, other.row_of_high, other.high > self.high),
            (self.row_of_low, other.row_of_low, other.low < self.low),
        ):
            fresh &= its != NEVER
            mine[fresh] = its[fresh] + self.rows
        self.missing += other.missing
        self.infinite += other.infinite
        self.above += other.above
        self.below += other.below
        self.low = torch.minimum(self.low, other.low)
        self.high = torch.maximum(self.high, other.high)
        self.sample.merge(other.sample)
        self.rows += other.rows
        self.values += other.values

    def collapse(self) -> None:
        """Merge all columns into one, for a later batch with another number of columns."""
        if self.columns == 1:
            return
        whole = Numbers(1, is_whole=self.is_whole, is_time=self.is_time)
        whole.rows, whole.values = self.rows, self.values * self.columns
        shift = self.shift if self.shift is not None else _zeros(self.columns)
        middle = shift.mean()
        moved = shift - middle
        whole.shift = middle.reshape(1)
        whole.squares = (
            (self.squares + 2 * moved * self.total + self.observed * moved * moved).sum().reshape(1)
        )
        whole.total = (self.total + self.observed * moved).sum().reshape(1)
        whole.low, whole.high = self.low.amin().reshape(1), self.high.amax().reshape(1)
        whole.missing, whole.infinite = (
            self.missing.sum().reshape(1),
            self.infinite.sum().reshape(1),
        )
        whole.first_missing, whole.first_infinite = (
            _earliest(self.first_missing),
            _earliest(self.first_infinite),
        )
        self.sample.collapse()
        whole.sample = self.sample
        whole.tallies = [merged(self.tallies)] if self.is_whole else []
        self.__dict__.update(whole.__dict__)

    def facts(self) -> list[Facts]:
        """Return the statistics of each column."""
        sample = self.sample.values().T.contiguous()
        found = []
        for place in range(self.columns):
            missing, infinite = int(self.missing[place]), int(self.infinite[place])
            observed = self.values - missing - infinite
            column = sample[place]
            mean, std = self._mean_and_std(place, observed)
            found.append(
                Facts(
                    rows=self.rows,
                    observed=observed,
                    missing=missing,
                    infinite=infinite,
                    first_missing=_row(self.first_missing[place]),
                    first_infinite=_row(self.first_infinite[place]),
                    low=float(self.low[place]) if observed else None,
                    high=float(self.high[place]) if observed else None,
                    mean=mean,
                    std=std,
                    sample=column[torch.isfinite(column)].sort().values,
                    runs_on=self.sample.in_order and self._may_run_on() and runs_on(column),
                    is_whole=self.is_whole,
                    is_time=self.is_time,
                    tally=self.tallies[place] if self.tallies else None,
                    above=Outside(
                        int(self.above[place]),
                        _row(self.first_above[place]),
                        _row(self.row_of_high[place]),
                    ),
                    below=Outside(
                        int(self.below[place]),
                        _row(self.first_below[place]),
                        _row(self.row_of_low[place]),
                    ),
                )
            )
        return found

    def _may_run_on(self) -> bool:
        return self.values == self.rows

    def _mean_and_std(self, place: int, observed: int) -> tuple[float | None, float | None]:
        if not observed or self.shift is None:
            return None, None
        # Non-finite values were replaced by the shift and add nothing to either sum.
        offset = float(self.total[place]) / observed
        mean = float(self.shift[place]) + offset
        squares = float(self.squares[place]) / observed
        std = max(0.0, squares - offset * offset) ** 0.5 if squares < torch.inf else None
        return (mean if abs(mean) < torch.inf else None), std


def _note_first(first: torch.Tensor, mask: torch.Tensor, row: int, inner: int) -> None:
    """Record, for each column of the mask, the row of its first hit."""
    fresh = (first == NEVER) & mask.any(1).cpu()
    first[fresh] = row + mask.to(torch.uint8).argmax(1).cpu()[fresh] // inner


def _earliest(firsts: torch.Tensor) -> torch.Tensor:
    seen = firsts[firsts != NEVER]
    return seen.amin().reshape(1) if len(seen) else _counts(1) + NEVER


def _row(first: torch.Tensor) -> int | None:
    return int(first) if int(first) != NEVER else None


def _zeros(columns: int) -> torch.Tensor:
    return torch.zeros(columns, dtype=torch.float64)


def _counts(columns: int) -> torch.Tensor:
    return torch.zeros(columns, dtype=torch.int64)
