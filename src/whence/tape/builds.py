"""Where optimizers and schedulers were built, those that are gone included."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from whence.source.sites import Site

MOST_BUILDS = 256


@dataclass(frozen=True, slots=True)
class Build:
    """A thing that was built, and the program's lines that did so, innermost first."""

    ref: weakref.ref[Any]
    kind: str
    stack: tuple[Site, ...]
    sizes: tuple[int, ...] = ()
    """Of an optimizer's groups: how many weights each had then."""


class BuildBook:
    """Bounded; keeps nothing of the program's alive."""

    def __init__(self) -> None:
        self._builds: list[Build] = []
        self.given_used_up = False
        """Whether the optimizer that could not be built was given an iterator which was at its end before."""

    def note(self, thing: Any, stack: tuple[Site, ...], sizes: tuple[int, ...] = ()) -> None:
        self._builds.append(Build(weakref.ref(thing), type(thing).__name__, stack, sizes))
        del self._builds[:-MOST_BUILDS]

    def of(self, thing: Any) -> Build | None:
        return next((each for each in reversed(self._builds) if each.ref() is thing), None)

    def others(self, thing: Any) -> Iterator[Build]:
        """All but this one, the newest first."""
        return (each for each in reversed(self._builds) if each.ref() is not thing)
