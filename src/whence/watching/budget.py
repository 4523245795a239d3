"""What watching may cost: everything expensive asks here first.

A run has `FLOOR_SECONDS` plus a share of its own CPU time for recording, studies, audits and their child processes.
Some work is done however long it takes, because each run has it a few times at most: the first steps, the first study
of the first step structures, the early audits and the last one. Imports (about 0.3 s), the checks that every step has,
and the diagnosis of a real failure do not count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable
from contextlib import suppress
from time import process_time

with suppress(ImportError):
    # Not on Windows, where no child is forked either.
    import resource

FLOOR_SECONDS = 0.6
FREE_OF_EACH = 4
"""So many models and loaders are looked at whatever that costs."""


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
        self._began = cpu_seconds()

    def begin(self) -> None:
        self._began = cpu_seconds()

    def run_seconds(self) -> float:
        """CPU time of the run since it is watched, the watch included."""
        return cpu_seconds() - self._began

    def has_room(self) -> bool:
        spent = self._cost() - self.exempt
        return spent <= FLOOR_SECONDS or spent <= FLOOR_SECONDS + self.share * self.run_seconds()

    def allows(self, kind: str, which: Hashable, made: int) -> bool:
        """Whether this one may be looked at after so many of its kind; if not, it is noted as left out."""
        may = made < FREE_OF_EACH or self.has_room()
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
