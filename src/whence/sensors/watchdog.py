"""Sees that nothing happens any more: neither the program nor any process that it started is running."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from whence.sensors.sensor import Complaints
from whence.source.sites import user_stack

INTERVAL_SECONDS = 1.0
IDLE_SHARE = 0.02
"""Of one processor: what a program that waits in a loop with a time limit takes."""


class Listener(Complaints, Protocol):
    def stands_still(self, thread: int, seconds: float) -> None: ...


class Watchdog:
    """A thread of its own. It looks at the clock and at the time that was computed, and then at the line that the program is at."""

    def __init__(self, listener: Listener, patience: float) -> None:
        self.listener = listener
        self.patience = patience
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._watched = 0

    def start(self) -> None:
        if self._thread is None and threading.current_thread() is threading.main_thread():
            self._watched = threading.get_ident()
            self._over.clear()
            self._thread = threading.Thread(target=self._watch, name="whence-watchdog", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._over.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=1.0)

    def _watch(self) -> None:
        since, used = time.monotonic(), _computed()
        while not self._over.wait(min(INTERVAL_SECONDS, self.patience / 4)):
            now, computed = time.monotonic(), _computed()
            if computed - used > IDLE_SHARE * (now - since) + 0.05:
                since, used = now, computed
            elif now - since > self.patience and self._stands():
                try:
                    self.listener.stands_still(self._watched, now - since)
                except Exception as error:
                    self.listener.sensor_failed("watchdog", error)
                return

    def _stands(self) -> bool:
        """Only now, when nothing moves, are the program's frames looked at."""
        place = self._place()
        return bool(place) and not self._over.wait(INTERVAL_SECONDS) and self._place() == place

    def _place(self) -> Any:
        frame = sys._current_frames().get(self._watched)
        return tuple((site.f_code, site.f_lineno) for site in user_stack(frame))


def _computed() -> float:
    """Seconds that this process and all below it have computed, as far as the system tells."""
    return time.process_time() + sum(map(_computed_by, _children(os.getpid())))


def _children(pid: int, deepest: int = 3) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                below = [int(each) for each in file.read().split()]
        except OSError:
            continue
        found += below
        if deepest:
            found += [each for child in below for each in _children(child, deepest - 1)]
    return found


def _computed_by(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    ticks: Callable[[str], int] = os.sysconf
    return (int(fields[11]) + int(fields[12])) / ticks("SC_CLK_TCK")
