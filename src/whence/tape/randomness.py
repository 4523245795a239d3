"""Random streams of the samples, saved before a batch is fetched, to fetch it again identically."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from whence.devices import random_state, restore_random_state
from whence.source.sites import is_library

LEARNING = 8
"""Number of batches after which the streams that a loader's samples draw from are known."""
MOST_GLOBALS = 500


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """A source of random numbers, whose state can be read and restored."""

    state: Callable[[], Any]
    restore: Callable[[Any], object]


PLAIN = {int, float, str, bytes, type(None)}
Kept = tuple[tuple[Stream, Any], ...]
"""Streams, each with its state."""


class Draws:
    """The streams that the samples of one dataset draw from.

    Streams that the first batches do not use are not checked again.
    """

    def __init__(self, dataset: Any) -> None:
        self._streams: list[Stream] | None = None
        self._dataset = dataset
        self._moved: set[Stream] = set()
        self._batches = 0
        self.are_none = False
        """The samples are known to draw from no stream."""

    def before(self) -> Kept:
        if self._streams is None:
            self._streams = list(_streams_of(self._dataset()))
        return tuple((each, each.state()) for each in self._streams)

    def after(self, kept: Kept) -> None:
        """Note which streams a batch has advanced."""
        if self._batches > LEARNING or self._streams is None:
            return
        self._batches += 1
        self._moved |= {each for each, state in kept if not _same(state, each.state())}
        if self._batches > LEARNING:
            self._streams = [each for each in self._streams if each in self._moved]
            self.are_none = not self._streams


def restore(kept: Kept) -> None:
    """Restore the states of streams. Only ever in a child process."""
    for stream, state in kept:
        stream.restore(state)


def _streams_of(dataset: Any) -> Iterator[Stream]:
    yield Stream(random.getstate, random.setstate)
    yield Stream(random_state, restore_random_state)
    if (numpy := sys.modules.get("numpy")) is not None:
        yield Stream(numpy.random.get_state, numpy.random.set_state)
    parts = list(_parts(dataset))
    for part in (
        *parts,
        *(inner for each in parts for inner in _parts(each)),
        *_globals_of(dataset),
    ):
        if isinstance(part, random.Random):
            yield Stream(part.getstate, part.setstate)
        elif isinstance(part, torch.Generator) or type(part).__module__ == "numpy.random.mtrand":
            yield Stream(part.get_state, part.set_state)
        elif numpy is not None and isinstance(part, numpy.random.Generator):
            bits = part.bit_generator
            yield Stream(partial(getattr, bits, "state"), partial(setattr, bits, "state"))


def _globals_of(dataset: Any) -> list[Any]:
    """Return the globals of the dataset's file, such as `rng = np.random.default_rng(0)`."""
    home = sys.modules.get(type(dataset).__module__)
    path = getattr(home, "__file__", None)
    return (
        list(vars(home).values())[:MOST_GLOBALS]
        if home is not None and path and not is_library(path)
        else []
    )


def _parts(thing: Any) -> list[Any]:
    """Return the attributes of an object that is not plain data."""
    return (
        list(getattr(thing, "__dict__", {}).values())[:64]
        if not isinstance(thing, torch.Tensor | type)
        else []
    )


def _same(one: Any, other: Any) -> bool:
    """Compare two states.

    NumPy's states are tuples or dicts of arrays, and those of accelerators are nested, so `==` does
    not work.
    """
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return all(_same(one[key], other[key]) for key in one)
    if hasattr(one, "dtype"):
        return bool((one == other).all())
    if isinstance(one, tuple) and not PLAIN.issuperset(map(type, one)):
        return all(map(_same, one, other))
    return bool(one == other)
