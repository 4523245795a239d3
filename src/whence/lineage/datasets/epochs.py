"""Why a loader gives the same in every epoch: what decides on it is asked again, in a child process.

Asked twice in a row it gives something else: the numbers that it draws are set back. Told of another epoch it does: nobody has told it.
Otherwise it seeds itself alike each time, or what it gives is meant to stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import islice
from typing import Any

from whence.lineage.datasets.asking import kept_leaves, print_of
from whence.lineage.datasets.generators import generators_in
from whence.lineage.datasets.workers import be_worker
from whence.source.classes import attribute_of
from whence.source.seeds import mixes, seeding_in
from whence.source.spots import Spot
from whence.tape.batches import LoaderInfo
from whence.tape.indices import listed

MOST_BATCHES = 256
MOST_SAMPLES = 64
MOST_COMPARED = 1024
DEEPEST = 3
NUMBERS = ("epoch", "_epoch", "current_epoch", "cur_epoch")
SIGNALS = (
    "on_epoch_end",
    "on_epoch_start",
    "on_epoch_begin",
    "next_epoch",
    "new_epoch",
    "start_epoch",
)
"""Methods that wait to be called in each epoch, without an argument."""


class Cause(Enum):
    NUMBER = auto()
    """It makes what it gives from the number of an epoch, which stays what it is."""
    SIGNAL = auto()
    """It has a method that is to be called in each epoch."""
    SEED = auto()
    """It seeds itself alike each time."""
    STREAM = auto()
    """It draws from a stream that moves on, and that somebody sets back."""
    COPY = auto()
    """It draws from a generator of its own, and the workers of each epoch begin with a copy of that."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What makes an epoch like the one before. Plain data: it comes from a child process."""

    cause: Cause
    part: str = ""
    """Which argument of the loader it is: sampler, batch_sampler or dataset."""
    depth: int = 0
    """How many others stand around it there: it may be the sampler of a BatchSampler."""
    kind: str = ""
    """Its class."""
    told_by: str = ""
    """The method, or the attribute, by which it could hear of an epoch."""
    number: int | None = None
    """The epoch that it is at."""
    spot: Spot | None = None
    """Where it seeds itself, or makes its generator."""
    is_out_of_reach: bool = False
    """It was told in this process, and its copies are in workers that stay on."""


def standing_of(info: LoaderInfo) -> Standing | None:
    """Why the order of a loader stays. Runs the program's code: only ever in a child process."""
    if info.is_iterable:
        be_worker(info, 0 if info.workers else None)
        found = _asked(
            lambda: [_print(each) for each in islice(info.dataset, MOST_SAMPLES)],
            "dataset",
            info.dataset,
        )
        if found is not None and info.keeps_workers and found.number:
            return replace(found, is_out_of_reach=True)
        return (
            _copied(info.dataset)
            if found is not None and found.cause is Cause.STREAM and info.workers
            else found
        )
    if info.batched and info.batch_size is None:
        return _asked(lambda: _order(info), "batch_sampler", info.batch_sampler())
    return _asked(lambda: _order(info), "sampler", info.sampler())


def contents_standing(info: LoaderInfo, indices: list[Any]) -> Standing | None:
    """The same for samples that a dataset makes by the number of an epoch. Only ever in a child process."""
    dataset = info.dataset
    shuffles = _order(info) != _order(info)
    before = [_print(dataset[each]) for each in indices[:MOST_COMPARED]] if shuffles else []
    found = _asked(
        lambda: [_print(dataset[each]) for each in indices[:MOST_SAMPLES]], "dataset", dataset
    )
    if found is None or found.cause not in (Cause.NUMBER, Cause.SIGNAL):
        return None
    if info.keeps_workers and found.number:
        return replace(found, is_out_of_reach=True)
    # The same samples in another order are no loss if the loader shuffles them anyway.
    return (
        None if any(_print(dataset[each]) in before for each in indices[:MOST_SAMPLES]) else found
    )


def can_be_told(dataset: Any) -> bool:
    """Whether there is a way to tell a dataset, or one that it stands for, of an epoch."""
    return any(next(_ways_to_tell(each), None) is not None for each in _carriers(dataset))


def _asked(ask: Callable[[], list[Any]], part: str, outermost: Any) -> Standing | None:
    first, carriers = ask(), _carriers(outermost)
    if len(first) < 2:
        return None
    if ask() != first:
        return Standing(Cause.STREAM)
    for depth, carrier in enumerate(carriers):
        number, kind = _number(carrier), type(carrier).__name__
        for told_by, tell in _ways_to_tell(carrier):
            tell()
            if ask() != first:
                cause = Cause.SIGNAL if told_by in SIGNALS else Cause.NUMBER
                return Standing(cause, part, depth, kind, told_by, number)
    for depth, carrier in enumerate(carriers):
        spot = seeding_in(type(carrier), "__iter__")
        if spot is not None and (part != "dataset" or mixes(type(carrier), "__iter__")):
            return Standing(Cause.SEED, part, depth, type(carrier).__name__, spot=spot)
    return None


def _copied(dataset: Any) -> Standing | None:
    """Streams of the whole program are seeded anew for each worker and epoch: it must be a generator that the dataset keeps."""
    for name, _ in generators_in(("self", dataset)):
        kept = name.removeprefix("self.").split(".")[0].split("[")[0]
        return Standing(
            Cause.COPY, "dataset", 0, type(dataset).__name__, spot=attribute_of(type(dataset), kept)
        )
    return None


def _carriers(thing: Any) -> list[Any]:
    """Those that have a say in what is given: a sampler or a dataset, and what it draws from in turn."""
    found: list[Any] = []
    while (
        thing is not None and len(found) < DEEPEST and not isinstance(thing, list | tuple | range)
    ):
        found.append(thing)
        inner = (getattr(thing, name, None) for name in ("batch_sampler", "sampler", "dataset"))
        thing = next((each for each in inner if each is not None), None)
    return found


def _number(carrier: Any) -> int | None:
    known = (getattr(carrier, name, None) for name in NUMBERS)
    return next((each for each in known if type(each) is int), None)


def _ways_to_tell(carrier: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """How it can be told of another epoch than the one it is at."""
    another = (_number(carrier) or 0) + 1
    if callable(tell := getattr(carrier, "set_epoch", None)):
        yield "set_epoch", lambda: tell(another)
    else:
        for name in NUMBERS:
            if type(getattr(carrier, name, None)) is int:
                yield name, lambda name=name: setattr(carrier, name, another)  # type: ignore[misc]
    for name in SIGNALS:
        if callable(signal := getattr(carrier, name, None)):
            yield name, signal


def _order(info: LoaderInfo) -> list[str]:
    sampler = info.batch_sampler() if info.batched else info.sampler()
    return [repr(listed(each, info.batched)) for each in islice(sampler or (), MOST_BATCHES)]


def _print(sample: Any) -> Any:
    return [(path, print_of(leaf)) for path, leaf in kept_leaves(sample)]
