"""How a ledger asks whether it may take notes of one more thing: the watch's budget answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable

Allows = Callable[[str, Hashable, int], bool]
"""Of the kind (in the plural), which one it is, and how many there were before."""


def always(_kind: str, _which: Hashable, _made: int) -> bool:
    """For ledgers outside of a watch."""
    return True
