"""The budget of a watch: everything expensive asks here first.

A run has `FLOOR_SECONDS` plus a share of its own CPU time for Whence's imports, recording, studies,
audits and their child processes. Work asks before it begins, and is expected to cost as much as the
last work of its kind. Only the first study, the first audit and the last audit always run; a part
of the floor is reserved for the last one. The checks of every step are not counted, and the
diagnosis of a real failure, which happens once, is exempt.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from time import process_time

with suppress(ImportError):
    # Missing on Windows, where no child is forked either.
    import resource

FLOOR_SECONDS = 0.85
"""Out of one second. The rest is for costs that are not counted."""
END_SECONDS = 0.05
"""The expected cost of the last audit and the report."""
FREE_OF_EACH = 2
"""This many models and loaders are always inspected: one for training, one for evaluation."""


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    if "resource" not in globals():
        return process_time()
    below = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + below.ru_utime + below.ru_stime


class Budget:
    """The CPU time that one watch may use."""

    def __init__(self, share: float, cost: Callable[[], float]) -> None:
        self.share = share
        self.exempt = 0.0
        """Seconds of the cost that do not count: the diagnosis of real failures."""
        self.left_out: defaultdict[str, set[Hashable]] = defaultdict(set)
        """What did not fit, by kind (in the plural). It may still be inspected later."""
        self._cost = cost
        self._started = 0.0
        self._last: dict[str, float] = {}
        """The cost of the last work of each kind."""
        self._began = cpu_seconds()

    def note_start(self, seconds: float) -> None:
        """Count the cost of the watch before it began: its imports."""
        self._started += seconds

    def begin(self) -> None:
        self._began = cpu_seconds()

    def run_seconds(self) -> float:
        """CPU time since the watch began, including the watch itself."""
        return cpu_seconds() - self._began

    def allowance(self) -> float:
        """Seconds that may be spent so far."""
        return FLOOR_SECONDS + self.share * self.run_seconds()

    def has_room(self, kind: str = "") -> bool:
        """Whether there is room for more work of this kind."""
        spent = self._started + self._cost() - self.exempt + self._last.get(kind, 0.0) + END_SECONDS
        return spent <= FLOOR_SECONDS or spent <= self.allowance()

    @contextmanager
    def spending(self, kind: str) -> Iterator[None]:
        """Measure the cost of work of this kind."""
        began, exempt = cpu_seconds(), self.exempt
        try:
            yield
        finally:
            self._last[kind] = max(cpu_seconds() - began - (self.exempt - exempt), 0.0)

    def allows(self, kind: str, which: Hashable, made: int) -> bool:
        """Whether this object may be inspected after `made` of its kind; if not, it is skipped."""
        may = made < FREE_OF_EACH or self.has_room(kind)
        (self.take_in if may else self.leave_out)(kind, which)
        return may

    def leave_out(self, kind: str, which: Hashable) -> None:
        """Record that this object is skipped. It may still be inspected later."""
        self.left_out[kind].add(which)

    def take_in(self, kind: str, which: Hashable) -> None:
        self.left_out[kind].discard(which)

    def lift(self) -> None:
        """Remove the limit, for a child process that has one question to answer."""
        self.share = math.inf

    def summary(self) -> str | None:
        """One line about everything that was skipped."""
        counts = [f"{len(which)} {kind}" for kind, which in sorted(self.left_out.items()) if which]
        if not counts:
            return None
        return f"{', '.join(counts)} skipped to stay within the budget; --budget raises it"
