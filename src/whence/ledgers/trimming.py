"""Memory that a look at a step has used and freed goes back to the system.

The C library would keep it, in pieces between which something small was left: the program's next large tensors would not fit
into them and take new memory besides.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache

from whence.tape.tape import Call

WORTHWHILE = 2**24
"""Bytes: what a smaller step leaves behind is not worth the time."""


def give_back_after(calls: Iterable[Call]) -> None:
    """Call it when a step that consists of these calls has been run again, and nothing of that is left."""
    trim = _trim()
    if trim is not None and sum(each.bytes for call in calls for each in call.outputs) > WORTHWHILE:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """glibc has it, others may not."""
    with suppress(Exception):
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
        return found
    return None
