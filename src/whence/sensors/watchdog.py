"""Watchdog: notices that a program hangs, and has the record saved while steps go by.

Its thread is invisible to the program. `threading` does not know it, and no signal is delivered to
it. It does not exist while the program forks, because Python 3.12 and later warn about a fork in a
process with several threads.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from _thread import allocate_lock, get_ident, get_native_id, start_new_thread
from collections.abc import Callable
from os import getpid
from time import monotonic, process_time, sleep
from typing import Any, Protocol

from whence.sensors.processes import Activity, activity_of_all
from whence.sensors.sensor import CannotStart, Complaints
from whence.source.sites import user_stack

INTERVAL_SECONDS = 1.0
SAVE_SECONDS = 3.0
IDLE_SHARE = 0.02
"""Share of one processor that a program uses while it waits in a loop with a timeout."""
QUEUED_SHARE = 0.1
"""Share of the time that briefly woken threads wait for a processor on a shared machine."""
RUNNING_SHARE = 0.25
"""Share of inspections that may find a hanging program's thread running or waiting for a disk."""
SLACK_SECONDS = 0.05
PATIENCE_SECONDS = 5.0
"""How long to wait for the thread to end on a very busy machine."""


class Listener(Complaints, Protocol):
    def stands_still(self, thread: int, seconds: float) -> None: ...


class Watchdog:
    def __init__(
        self, listener: Listener, patience: float, save: Callable[[], None] = lambda: None
    ) -> None:
        self.listener = listener
        self.patience = patience
        self._save = save
        self.life: _Life | None = None
        """The thread; None while it does not exist."""
        self._on = False
        self._owner = 0
        self._watched: int | None = None
        self._saved = 0.0
        self._has_reported = False

    def start(self) -> None:
        if not self._on:
            self._on, self._owner, self._saved = True, getpid(), monotonic()
            # The program hangs only if its main thread waits; the record is saved in any case.
            main = threading.main_thread().ident
            self._watched = main if get_ident() == main else None
            _watchdogs.add(self)
            self.go_on()

    def go_on(self) -> None:
        """Start the thread again if a fork has ended it.

        Called at frequent events: it costs next to nothing.
        """
        if self.life is None and self._on and getpid() == self._owner:
            life = self.life = _Life()
            try:
                start_new_thread(self._live, (life,))
            except RuntimeError as error:
                # The system refuses to start another thread.
                self.life, self._on = None, False
                self.listener.sensor_failed("watchdog", CannotStart("watchdog", "hangs", error))

    def stop(self) -> None:
        self._on = False
        _watchdogs.discard(self)
        self._end()

    def pause(self) -> None:
        """End the thread before a fork, unless the thread itself forks or is writing a report."""
        life = self.life
        if life is not None and not life.is_reporting and getpid() == self._owner:
            self._end()

    def _end(self) -> None:
        life, self.life = self.life, None
        if life is not None and getpid() == self._owner:
            life.end()

    def _live(self, life: _Life) -> None:
        try:
            life.begin()
            self._watch(life)
        except BaseException as error:
            # Python must print nothing about Whence's thread, whatever state the interpreter is in.
            if life is self.life:
                self.listener.sensor_failed("watchdog", error)
        finally:
            life.gone.release()

    def _watch(self, life: _Life) -> None:
        interval = min(INTERVAL_SECONDS, self.patience / 4)
        still = Stillness(self.patience, interval)
        while not life.ends_within(interval):
            now = monotonic()
            if now - self._saved >= SAVE_SECONDS:
                self._saved = now
                self._save()
            if self._watched is None or self._has_reported:
                continue
            seconds = still.lasts(now, life.native)
            if seconds is not None and self._stays(life, interval):
                self._has_reported = life.is_reporting = True
                try:
                    self.listener.stands_still(self._watched, seconds)
                except Exception as error:
                    self.listener.sensor_failed("watchdog", error)
                finally:
                    life.is_reporting = False
                    # If something called `threading.current_thread()` here, it made an entry for
                    # this thread.
                    getattr(threading, "_active", {}).pop(get_ident(), None)

    def _stays(self, life: _Life, interval: float) -> bool:
        """Return whether the program's main thread stays at one place.

        Its frames are inspected only now, when nothing moves.
        """
        place = self._place()
        return bool(place) and not life.ends_within(interval) and self._place() == place

    def _place(self) -> Any:
        frame = sys._current_frames().get(self._watched or 0)
        return tuple((site.f_code, site.f_lineno) for site in user_stack(frame))


class _Life:
    """One thread, from its start to its end."""

    __slots__ = ("_wake", "gone", "is_reporting", "native")

    def __init__(self) -> None:
        self._wake = allocate_lock()
        self._wake.acquire()
        self.gone = allocate_lock()
        self.gone.acquire()
        self.is_reporting = False
        self.native = 0

    def begin(self) -> None:
        """Block all signals, first thing in the new thread: they are for the program's threads."""
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self.native = get_native_id()

    def ends_within(self, seconds: float) -> bool:
        return self._wake.acquire(timeout=seconds)

    def end(self) -> None:
        """Wake the thread and wait until the system no longer has it."""
        self._wake.release()
        if self.native == get_native_id():
            return
        until = monotonic() + PATIENCE_SECONDS
        if self.gone.acquire(timeout=PATIENCE_SECONDS):
            while os.path.exists(f"/proc/self/task/{self.native}") and monotonic() < until:
                sleep(0.0001)


class Stillness:
    """How long neither the program nor a related process has computed or tried to.

    A process that is kept from running computes little, but its threads are ready to run: that does
    not count as still. Nor does it count if this thread itself woke late, because then the whole
    process was stopped or starved.
    """

    def __init__(self, patience: float, interval: float) -> None:
        self._patience = patience
        self._interval = interval
        self._last = self._since = monotonic()
        self._used = process_time()
        self._base: dict[int, Activity] | None = None
        self._checks = self._running = 0

    def lasts(self, now: float, own_thread: int) -> float | None:
        """Return the seconds of stillness.

        None while they are below the threshold, if something computes, or if that is unknown.
        """
        was_late, self._last = now - self._last > self._interval + INTERVAL_SECONDS, now
        if was_late or process_time() - self._used > self._allowed(IDLE_SHARE, now):
            self._begin(now, None)
            return None
        # The other processes are inspected only if this one does not compute.
        sample = activity_of_all(own_thread)
        base = self._base
        if (
            sample is None
            or base is None
            or sample.keys() != base.keys()
            or self._is_at_work(base, sample, now)
        ):
            self._begin(now, sample)
            return None
        self._checks += 1
        self._running += any(each.is_running for each in sample.values())
        if now - self._since <= self._patience:
            return None
        if self._running > RUNNING_SHARE * self._checks:
            self._begin(now, sample)
            return None
        return now - self._since

    def _is_at_work(
        self, base: dict[int, Activity], sample: dict[int, Activity], now: float
    ) -> bool:
        run = sum(max(0.0, each.computed - base[pid].computed) for pid, each in sample.items())
        queued = sum(max(0.0, each.queued - base[pid].queued) for pid, each in sample.items())
        return run > self._allowed(IDLE_SHARE, now) or queued > self._allowed(QUEUED_SHARE, now)

    def _allowed(self, share: float, now: float) -> float:
        return share * (now - self._since) + SLACK_SECONDS

    def _begin(self, now: float, sample: dict[int, Activity] | None) -> None:
        self._since, self._used, self._base = now, process_time(), sample
        self._checks = self._running = 0


_watchdogs: set[Watchdog] = set()
"""Watchdogs that were started and not stopped."""


def _pause_before_fork() -> None:
    for each in list(_watchdogs):
        each.pause()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause_before_fork)
