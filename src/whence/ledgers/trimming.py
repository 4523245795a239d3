"""Return the memory that a replay has used and freed to the system.

The C library would keep it in fragments, too small for the program's next large tensors, which
would take new memory in addition.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache

from whence.tape.tape import Call

WORTHWHILE = 2**24
"""Bytes; a smaller step is not worth the time."""


def give_back_after(calls: Iterable[Call]) -> None:
    """Trim the heap after a step with these calls was replayed and freed."""
    trim = _trim()
    if trim is not None and sum(each.bytes for call in calls for each in call.outputs) > WORTHWHILE:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """`malloc_trim`, which glibc has and other C libraries may not."""
    with suppress(Exception):
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
        return found
    return None
