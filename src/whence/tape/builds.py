"""Where optimizers and schedulers were built, including those that are gone."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from whence.source.sites import Site

MOST_BUILDS = 256


@dataclass(frozen=True, slots=True)
class Build:
    """An object that was built, and the program's lines that built it, innermost first."""

    ref: weakref.ref[Any]
    kind: str
    stack: tuple[Site, ...]
    sizes: tuple[int, ...] = ()
    """The number of weights in each of the optimizer's groups at that time."""


class BuildBook:
    """Builds of optimizers and schedulers. Bounded; keeps no object of the program alive."""

    def __init__(self) -> None:
        self._builds: list[Build] = []
        self.given_used_up = False
        """Whether the optimizer that could not be built received an exhausted iterator."""

    def note(self, thing: Any, stack: tuple[Site, ...], sizes: tuple[int, ...] = ()) -> None:
        self._builds.append(Build(weakref.ref(thing), type(thing).__name__, stack, sizes))
        del self._builds[:-MOST_BUILDS]

    def of(self, thing: Any) -> Build | None:
        return next((each for each in reversed(self._builds) if each.ref() is thing), None)

    def others(self, thing: Any) -> Iterator[Build]:
        """Return all builds but this one, newest first."""
        return (each for each in reversed(self._builds) if each.ref() is not thing)
