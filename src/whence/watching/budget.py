"""What watching may cost: everything expensive asks here first.

A run has `FLOOR_SECONDS` plus a share of its own CPU time for Whence's imports, recording, studies, audits and their
child processes. Work asks before it begins, and is expected to cost what the last of its kind did. Only the first study,
the first audit and the last one are made in any case; a part of the floor is kept for the last one. The checks that
every step has are not counted, and the diagnosis of a real failure, which happens once, is exempt.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from time import process_time

with suppress(ImportError):
    # Not on Windows, where no child is forked either.
    import resource

FLOOR_SECONDS = 0.85
"""Of one second. The rest is for what is not counted."""
END_SECONDS = 0.05
"""What the last audit and the report are expected to take."""
FREE_OF_EACH = 2
"""So many models and loaders are looked at whatever that costs: one for training, one for evaluation."""


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    if "resource" not in globals():
        return process_time()
    below = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + below.ru_utime + below.ru_stime


class Budget:
    """One for each watch."""

    def __init__(self, share: float, cost: Callable[[], float]) -> None:
        self.share = share
        self.exempt = 0.0
        """Seconds of the cost that do not count: the diagnosis of real failures."""
        self.left_out: defaultdict[str, set[Hashable]] = defaultdict(set)
        """What did not fit, by kind (in the plural). It may still come later."""
        self._cost = cost
        self._started = 0.0
        self._last: dict[str, float] = {}
        """What the last work of each kind has cost."""
        self._began = cpu_seconds()

    def note_start(self, seconds: float) -> None:
        """Count what the watch has cost before it began: its imports."""
        self._started += seconds

    def begin(self) -> None:
        self._began = cpu_seconds()

    def run_seconds(self) -> float:
        """CPU time of the run since it is watched, the watch included."""
        return cpu_seconds() - self._began

    def allowance(self) -> float:
        """Seconds that may be spent so far."""
        return FLOOR_SECONDS + self.share * self.run_seconds()

    def has_room(self, kind: str = "") -> bool:
        """Whether there is room for another work of this kind."""
        spent = self._started + self._cost() - self.exempt + self._last.get(kind, 0.0) + END_SECONDS
        return spent <= FLOOR_SECONDS or spent <= self.allowance()

    @contextmanager
    def spending(self, kind: str) -> Iterator[None]:
        """Learn what work of this kind costs."""
        began, exempt = cpu_seconds(), self.exempt
        try:
            yield
        finally:
            self._last[kind] = max(cpu_seconds() - began - (self.exempt - exempt), 0.0)

    def allows(self, kind: str, which: Hashable, made: int) -> bool:
        """Whether this one may be looked at after so many of its kind; if not, it is noted as left out."""
        may = made < FREE_OF_EACH or self.has_room(kind)
        (self.take_in if may else self.leave_out)(kind, which)
        return may

    def leave_out(self, kind: str, which: Hashable) -> None:
        """Note that this one is not looked at. It may still be, later."""
        self.left_out[kind].add(which)

    def take_in(self, kind: str, which: Hashable) -> None:
        self.left_out[kind].discard(which)

    def lift(self) -> None:
        """In a child process that has one question to answer, nothing is left out."""
        self.share = math.inf

    def summary(self) -> str | None:
        """One line about all that was left out."""
        counts = [f"{len(which)} {kind}" for kind, which in sorted(self.left_out.items()) if which]
        if not counts:
            return None
        return f"{', '.join(counts)} were left out to keep within the budget; --budget raises it"
