"""Scheduler state of the program and related processes: computing, waiting, or asleep."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

RUNNING = frozenset("RD")
"""States of a thread that is running, ready to run, or waiting for a disk."""
DEEPEST = 3
MOST_PROCESSES = 512


@dataclass(frozen=True, slots=True)
class Activity:
    """One process, all its threads together."""

    computed: float
    """Seconds of processor time."""
    queued: float
    """Seconds in which a thread was ready to run and had no processor."""
    is_running: bool
    """A thread is running, ready to run, or waiting for a disk."""


def activity_of_all(own_thread: int) -> dict[int, Activity] | None:
    """Return the activity of this process, its descendants and, for a rank, the other ranks.

    None if it is unknown. The thread with the native id `own_thread` is not counted.
    """
    relatives = _relatives()
    if relatives is None or not _has_statistics():
        return None
    found = {pid: _activity_of(pid, own_thread) for pid in relatives}
    # A process that has ended meanwhile is missing from the next sample, which is noticed.
    return {pid: each for pid, each in found.items() if each is not None}


def world_size() -> int:
    """Return the number of ranks, from torch.distributed or from the launcher's environment."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return _number_in("WORLD_SIZE") or 1


def _relatives() -> set[int] | None:
    own = os.getpid()
    below = _below(own, DEEPEST)
    if below is None:
        return None
    world = world_size()
    if world == 1 and not _is_spawned():
        return {own, *below}
    parent = os.getppid()
    beside = _below(parent, DEEPEST + 1)
    if beside is None or len(beside) > MOST_PROCESSES:
        return None
    here = _number_in("LOCAL_WORLD_SIZE") or len(_children(parent) or ()) + 1
    if here < world:
        # Ranks on other machines may be computing.
        return None
    return {own, parent, *below, *beside}


def _is_spawned() -> bool:
    """Return whether multiprocessing started this process, so that its parent has the others."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _number_in(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 8 else None


def _has_statistics() -> bool:
    """Return whether the kernel keeps scheduler statistics; without them every value is 0."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return file.read().split()[2:] not in ([], ["0"])
    except OSError:
        return False


def _below(pid: int, deepest: int) -> list[int] | None:
    children = _children(pid)
    if children is None:
        return None
    found = list(children)
    if deepest:
        for child in children:
            found += _below(child, deepest - 1) or ()
    return found


def _children(pid: int) -> list[int] | None:
    """Return the child processes, or None if the system does not list them."""
    found: list[int] | None = None
    for thread in _threads(pid):
        try:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found = (found or []) + [int(each) for each in file.read().split()]
        except OSError:
            continue
    return found


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _activity_of(pid: int, own_thread: int) -> Activity | None:
    computed, queued, is_running, seen = 0.0, 0.0, False, False
    for thread in _threads(pid):
        if int(thread) == own_thread:
            continue
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                run, waited, _ = file.read().split()
            with open(
                f"/proc/{pid}/task/{thread}/stat", encoding="ascii", errors="replace"
            ) as file:
                state = file.read().rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            continue
        seen = True
        computed += int(run) / 1e9
        queued += int(waited) / 1e9
        is_running = is_running or state in RUNNING
    return Activity(computed, queued, is_running) if seen else None
