"""The question a ledger asks before it records another object; the watch's budget answers it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

Allows = Callable[[str, Hashable, int], bool]
"""Called with the kind (in the plural), the object's key, and how many were recorded before."""


def always(_kind: str, _which: Hashable, _made: int) -> bool:
    """Allow everything, for ledgers outside a watch."""
    return True
