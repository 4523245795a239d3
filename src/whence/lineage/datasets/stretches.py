"""Classes that come in stretches: sorted data that a shuffle buffer, which is too small for that, mixes only with their neighbours."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from whence.lineage.datasets.asking import random_states, set_random_states
from whence.lineage.datasets.generators import reachable
from whence.source.classes import class_node
from whence.tape.batches import LoaderInfo, leaves_of

FEWEST_CLASSES = 3
FEWEST_SAMPLES = 8
MIXED = 0.8
MOST_SAMPLES = 20_000
SMALLEST, LARGEST = 2, 1_000_000


@dataclass(frozen=True, slots=True)
class Buffer:
    """A number that decides how well a stream is mixed. Plain data: it comes from a child process."""

    place: str
    """How to get to the object that has it, or in whose module it is, from the dataset."""
    name: str
    size: int
    is_attribute: bool
    enough: float
    """Over how much of an epoch classes are spread where it is large."""


def width(positions: torch.Tensor, labels: torch.Tensor) -> float:
    """Over how much of an epoch a class is spread, on the average: 0.9 where they are mixed, less where each has its own stretch.

    It is the share of the epoch in which the middle nine tenths of a class lie; 1 where too few classes are known.
    """
    known = [
        each
        for label in sorted(set(labels.tolist()))
        if len(each := positions[labels == label]) >= FEWEST_SAMPLES
    ]
    if len(known) < FEWEST_CLASSES:
        return 1.0
    length = float(positions.max() - positions.min()) + 1
    spread = sum(float(each.quantile(0.95) - each.quantile(0.05)) * len(each) for each in known)
    return spread / sum(map(len, known)) / length


def buffer_of(info: LoaderInfo, path: str) -> Buffer | None:
    """The size that mixes the classes of a stream once it is large. Runs the program's code: only ever in a child process."""
    states = random_states()
    for place, name, size, is_attribute, names in _sizes(info.dataset):
        names[name] = size * MOST_SAMPLES
        with suppress(Exception):
            set_random_states(states)
            found = _width_of(info.dataset, path)
            if found > MIXED:
                return Buffer(place, name, size, is_attribute, found)
        names[name] = size
    return None


def _width_of(stream: Any, path: str) -> float:
    labels = []
    for sample in islice(stream, MOST_SAMPLES):
        labels.append(float(dict(leaves_of(sample))[path]))
    return width(torch.arange(len(labels), dtype=torch.float32), torch.tensor(labels))


def _sizes(dataset: Any) -> Iterator[tuple[str, str, int, bool, dict[str, Any]]]:
    """Numbers that a stream of the program's may have its size from: attributes of what hangs on it, variables of its module."""
    things = [
        (place, each) for place, each in reachable(("self", dataset)) if hasattr(each, "__dict__")
    ]
    for place, thing in things:
        for name, size in list(vars(thing).items()):
            if _is_size(size):
                yield place, name, size, True, vars(thing)
    for place, thing in things:
        names = (
            vars(sys.modules[type(thing).__module__])
            if class_node(type(thing))[0] is not None
            else {}
        )
        for name, size in list(names.items()):
            if _is_size(size):
                yield place, name, size, False, names


def _is_size(thing: Any) -> bool:
    return type(thing) is int and SMALLEST <= thing <= LARGEST
