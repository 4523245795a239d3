"""Tables about the program's objects that keep none alive and run no Python when one dies.

The program may free an object at any point, and the callbacks of weak references run there. While a
callback written in Python runs, a signal handler of the program may run too, and Python drops what
is raised in a callback ("Exception ignored in"). So no callback of Whence is Python: here each is
`dict.pop`, which is C. `WeakKeyDictionary`, `WeakSet`, `weakref.finalize` and `__del__` all run
Python, and are not used.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


def removing_ref(thing: K, table: dict[int, Any]) -> weakref.ref[K]:
    """Return a weak reference that removes the thing's entry from a table when the thing dies.

    The reference must be kept. Another object can get the same identity only after that. The
    callback is called with the reference, which `pop` takes as its default.
    """
    return weakref.ref(thing, partial(table.pop, id(thing)))


class WeakTable(Generic[K, V]):
    """What is known of objects, by identity: no object is hashed or compared."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[K], V]] = {}

    def __setitem__(self, thing: K, value: V) -> None:
        entry = self._entries.get(id(thing))
        ref = (
            entry[0]
            if entry is not None and entry[0]() is thing
            else removing_ref(thing, self._entries)
        )
        self._entries[id(thing)] = ref, value

    def __getitem__(self, thing: K) -> V:
        entry = self._entries[id(thing)]
        if entry[0]() is not thing:
            raise KeyError(thing)
        return entry[1]

    def get(self, thing: K, default: D) -> V | D:
        entry = self._entries.get(id(thing))
        return entry[1] if entry is not None and entry[0]() is thing else default

    def setdefault(self, thing: K, value: V) -> V:
        if thing not in self:
            self[thing] = value
        return self[thing]

    def pop(self, thing: K) -> None:
        """Remove a thing, if it is known."""
        if thing in self:
            del self._entries[id(thing)]

    def clear(self) -> None:
        self._entries.clear()

    def __contains__(self, thing: K) -> bool:
        entry = self._entries.get(id(thing))
        return entry is not None and entry[0]() is thing

    def __len__(self) -> int:
        return len(self._entries)

    def things(self) -> list[K]:
        """Return the live objects, in the order in which they were added."""
        return [thing for ref, _ in list(self._entries.values()) if (thing := ref()) is not None]

    def values(self) -> list[V]:
        return [value for _, value in list(self._entries.values())]
