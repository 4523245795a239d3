"""The at-fork callbacks of this process, which Python does not expose."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any


def _find() -> tuple[list[Callable[[], Any]], ...] | None:
    """Find the three lists in which the interpreter keeps at-fork callbacks.

    Python has no function that lists them. So our own callbacks are registered, the garbage
    collector finds the lists that hold them, and the callbacks are removed again. This must run
    when this module is imported, because `gc.freeze()` hides the lists from the collector. The
    search time grows with the number of objects: import this before torch.
    """
    if not hasattr(os, "register_at_fork"):
        return None

    def before() -> None: ...
    def in_parent() -> None: ...
    def in_child() -> None: ...

    marks = before, in_parent, in_child
    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)
    holders = [each for each in gc.get_referrers(*marks) if type(each) is list]
    found = []
    for mark in marks:
        lists = [each for each in holders if any(callback is mark for callback in each)]
        for each in lists:
            each.remove(mark)
        found += lists
    return tuple(found) if len(found) == len(marks) else None


CALLBACKS = _find()
