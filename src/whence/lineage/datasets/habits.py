"""What a dataset does when it is asked for a sample: it is asked a few times over, in a child process.

Does it draw random numbers, from where, and does it seed them itself? Does it change what it has stored? Does arithmetic in it wrap
around? Which files does it read?
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from whence.lineage.arrays import ArrayWatch, Reshape, Wrap
from whence.lineage.datasets.asking import MOST_ELEMENTS, alike, line_of, print_of, streams
from whence.lineage.datasets.blending import Blend, blend_of
from whence.lineage.datasets.generators import (
    attributes_in,
    generators_in,
    made_at,
    put_back,
    reachable,
    state_of,
)
from whence.lineage.datasets.residue import residue_of
from whence.lineage.datasets.seeding import fetched
from whence.lineage.datasets.windows import Within, target_within
from whence.lineage.datasets.workers import alike_in_workers, be_worker
from whence.lineage.looking import is_array
from whence.source.sites import Site, user_stack
from whence.source.spots import Spot
from whence.tape.batches import LoaderInfo

SAMPLES = 3
MORE_SAMPLES = 8
SEEDERS = (
    ("numpy.random", "default_rng"),
    ("numpy.random", "seed"),
    ("random", "seed"),
    ("torch", "manual_seed"),
)


@dataclass(slots=True)
class Habits:
    """Plain data: it comes from a child process."""

    mutated: str = ""
    """What the dataset has stored and changes when it is read."""
    mutates: Spot | None = None
    generator: str = ""
    """A random generator that the dataset or the collate function keeps and draws from."""
    made: Spot | None = None
    """Where an object was given that generator."""
    draws: Spot | None = None
    seed: str = ""
    """The same seed that is set for every sample."""
    seeds: Spot | None = None
    is_random: bool = False
    """Other seeds give other samples."""
    draws_anew: Spot | None = None
    """Where it draws from a stream of the whole program."""
    workers_seed: Spot | None = None
    """Where the function that each worker begins with seeds them all alike."""
    wraps: Wrap | None = None
    reshapes: list[Reshape] = field(default_factory=list)
    files: list[list[str]] = field(default_factory=list)
    """For a few samples, the files that were read for it."""
    blend: Blend | None = None
    """Labels that were made by mixing others."""
    within: Within | None = None
    """A target that is part of its own input."""
    indices: list[Any] = field(default_factory=list)


def habits_of(info: LoaderInfo, indices: list[Any]) -> Habits:
    """Ask for a few samples. Runs the program's code: only ever in a child process."""
    dataset, collate = info.dataset, info.collate
    found = Habits(indices=indices[:SAMPLES])
    index = indices[0]
    roots = ("self", dataset), ("collate_fn", collate)
    kept, attributes = {name for name, _ in generators_in(*roots)}, attributes_in(*roots)
    stored = _stored(dataset, index)
    before = {name: print_of(thing) for name, thing in stored.items()}
    first = fetched(dataset, index, 1)
    second = fetched(dataset, index, 1)
    changed = [name for name, thing in stored.items() if print_of(thing) != before[name]]
    if changed and not alike(first, second):
        found.mutated = changed[0]
        found.mutates = line_of(lambda: dataset[index], lambda: print_of(stored[changed[0]]))
        return found
    found.is_random = not alike(fetched(dataset, index, 1), fetched(dataset, index, 2))
    if (changed or found.is_random) and (
        residue := residue_of(dataset, index, stored, before)
    ) is not None:
        found.mutated, found.mutates = residue
        return found
    for name, generator in generators_in(*roots):
        if (
            name not in kept
            and info.workers > 1
            and _begins_otherwise(name, index, info, attributes)
        ):
            continue
        states = state_of(generator)
        samples = [dataset[each] for each in indices[:SAMPLES]]
        if collate is not None:
            collate(samples)
        if state_of(generator) != states:
            found.generator, found.made = name, made_at(name, *roots)
            found.draws = line_of(
                lambda: _deliver(dataset, collate, indices),
                lambda one=generator: state_of(one),  # type: ignore[misc]
            )
            break
    if found.is_random:
        found.draws_anew = line_of(lambda: dataset[index], streams)
    _ask_for_seeds(found, dataset, indices)
    watch = ArrayWatch()
    watch.during(lambda: [dataset[each] for each in indices[:MORE_SAMPLES]])
    found.wraps, found.reshapes = watch.wraps, watch.reshapes
    found.files = [_files(dataset, each) for each in found.indices]
    with contextlib.suppress(Exception):
        found.within = target_within(dataset)
    with contextlib.suppress(Exception):
        found.blend = blend_of(dataset.__getitem__, indices[:MORE_SAMPLES])
    if info.worker_init is not None and info.workers > 1 and (found.is_random or found.generator):
        # The last question: this function may do whatever it likes to the dataset.
        with contextlib.suppress(Exception):
            found.workers_seed = alike_in_workers(info, indices[:SAMPLES])
    return found


def _deliver(dataset: Any, collate: Any, indices: list[Any]) -> None:
    samples = [dataset[each] for each in indices[:SAMPLES]]
    if collate is not None:
        collate(samples)


def _begins_otherwise(
    name: str, index: Any, info: LoaderInfo, attributes: list[tuple[Any, dict[str, Any]]]
) -> bool:
    """Whether a generator that is made when a sample is first asked for is another one in each worker."""
    begun = []
    for number in range(2):
        put_back(attributes)
        be_worker(info, number)
        info.dataset[index]
        made = dict(generators_in(("self", info.dataset), ("collate_fn", info.collate)))
        begun.append(state_of(made[name]) if name in made else None)
    return begun[0] != begun[1]


def _stored(dataset: Any, index: Any) -> dict[str, Any]:
    """Data that the dataset has for a sample: whole arrays, and the one element of long lists."""
    found: dict[str, Any] = {}
    for name, thing in reachable(("self", dataset)):
        if isinstance(thing, torch.Tensor) or is_array(thing):
            large = (
                thing.numel() if isinstance(thing, torch.Tensor) else thing.size
            ) > MOST_ELEMENTS
            found[name] = (
                thing
                if not large
                else thing[index]
                if isinstance(index, int) and index < len(thing)
                else None
            )
        elif isinstance(thing, list) and len(thing) > 16:
            numbers = [
                each
                for each in places_of(dataset, index)
                if isinstance(each, int) and each < len(thing)
            ]
            found.update({f"{name}[{number}]": thing[number] for number in numbers})
            for number in numbers:
                inner = thing[number]
                if isinstance(inner, dict | tuple):
                    parts = inner.items() if isinstance(inner, dict) else enumerate(inner)
                    found.update({f"{name}[{number}][{key!r}]": each for key, each in parts})
    return {name: thing for name, thing in found.items() if thing is not None}


def places_of(dataset: Any, index: Any) -> Iterator[Any]:
    """The index, and what it becomes in the datasets that a subset stands for."""
    while True:
        yield index
        indices, inner = getattr(dataset, "indices", None), getattr(dataset, "dataset", None)
        if inner is None:
            return
        index = int(indices[index]) if indices is not None and isinstance(index, int) else index
        dataset = inner


def _ask_for_seeds(found: Habits, dataset: Any, indices: list[Any]) -> None:
    """Which seeds the code of a sample sets by itself: the same for every sample is no randomness."""
    calls: list[tuple[Site, str]] = []
    undo: list[tuple[Any, str, Any]] = []

    def noting(original: Any) -> Any:
        def seeded(*args: Any, **kwargs: Any) -> Any:
            stack = user_stack(sys._getframe(1))
            given = [*args, *kwargs.values()]
            if stack and given and isinstance(given[0], int):
                calls.append((stack[0], repr(given[0])))
            return original(*args, **kwargs)

        return seeded

    for module, name in SEEDERS:
        home = sys.modules.get(module)
        if home is not None:
            undo.append((home, name, getattr(home, name)))
            setattr(home, name, noting(getattr(home, name)))
    per_sample = []
    try:
        for each in indices[:SAMPLES]:
            calls.clear()
            dataset[each]
            per_sample.append(dict(calls))
    finally:
        for home, name, original in undo:
            setattr(home, name, original)
    common = set(per_sample[0].items()).intersection(
        *(set(each.items()) for each in per_sample[1:])
    )
    if common and len(per_sample) > 1:
        site, found.seed = next(iter(common))
        statement = site.statement()
        value = getattr(statement, "value", None)
        found.seeds = (
            Spot.of_node(site.filename, value if isinstance(value, ast.expr) else statement)
            if statement
            else None
        )


def _files(dataset: Any, index: Any) -> list[str]:
    """The files that are opened for a sample."""
    opened: list[str] = []
    original = builtins.open

    def noting(file: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, str | os.PathLike):
            opened.append(os.fspath(file))
        return original(file, *args, **kwargs)

    builtins.open = noting
    try:
        dataset[index]
    finally:
        builtins.open = original
    return [each for each in opened if isinstance(each, str)]
