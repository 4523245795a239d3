"""The course of the loss: its last values, whether it jumps, and whether it explodes."""

from __future__ import annotations

from collections import deque

from whence.watching.updates import ABSURD, SUDDEN, is_out_of_bounds

MOST_LOSSES = 256
MOST_RATE_TRIALS = 4
JUMP = 2.0


class Course:
    def __init__(self) -> None:
        self.losses: deque[float] = deque(maxlen=MOST_LOSSES)
        self.start: float | None = None
        """The absolute value of the first loss."""
        self._most = ABSURD
        """The upper limit of a loss, regardless of the previous one."""
        self.jumped = False
        """Whether the last loss jumped."""
        self._tried: list[float] = []
        """The losses at which the learning rate was tried."""

    def note(self, number: float) -> None:
        self.jumped = self.jumps(number)
        self.losses.append(number)
        if self.start is None:
            self.start = abs(number)
            self._most = min(ABSURD, SUDDEN * self.start)

    def jumps(self, number: float) -> bool:
        """Whether a loss is well above the previous one, or far above the first."""
        if not self.losses or self.start is None:
            return False
        return abs(number) > JUMP * abs(self.losses[-1]) or abs(number) > SUDDEN * self.start

    def goes_on(self, number: float) -> bool:
        """Whether a loss is finite, below the limit, and no jump."""
        size, losses = abs(number), self.losses
        # Comparisons with NaN are false.
        return size <= self._most and (not losses or size <= JUMP * abs(losses[-1]))

    def is_usual(self) -> bool:
        """Whether the last loss has a plausible size."""
        return bool(self.losses) and abs(self.losses[-1]) < ABSURD

    def is_absurd(self) -> bool:
        return bool(self.losses) and abs(self.losses[-1]) > ABSURD

    def explodes(self) -> bool:
        """Whether the learning rate should be tried.

        A loss that keeps growing is tried again at ten times the last tried value.
        """
        is_due = len(self._tried) < MOST_RATE_TRIALS or self.losses[-1] > 10 * max(self._tried)
        return is_due and self.is_out_of_bounds()

    def is_out_of_bounds(self) -> bool:
        return is_out_of_bounds(self.losses, self.start or 0.0)

    def tried(self) -> None:
        self._tried.append(self.losses[-1])
