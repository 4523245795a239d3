"""Epochs with the same samples in the same order, while one optimizer trains on them."""

from __future__ import annotations

import contextlib
from itertools import pairwise

from torch.utils.data import BatchSampler, SequentialSampler

from whence.ledgers.batches import EPOCHS_NOTED, BatchLedger, Epoch, LoaderEntry
from whence.lineage.datasets.epochs import can_be_told, contents_standing, standing_of
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.tape.batches import LoaderInfo

PATIENCE = 5.0
FEWEST_BATCHES = 2
ENOUGH_SAMPLES = 8


def alike(book: BatchLedger, entry: LoaderEntry) -> list[Epoch]:
    """The first epochs of a loader, and of loaders built in its place, if their order is the same.

    Empty, or at least two epochs.
    """
    epochs = sorted(
        (epoch for each in _in_place_of(book, entry) for epoch in each.epochs if _is_known(epoch)),
        key=lambda epoch: epoch.began,
    )
    if len(epochs) < 2 or not frozenset.intersection(*(each.trained for each in epochs)):
        # Runs of several models use the same data in the same order on purpose.
        return []
    one_after_the_other = all(
        one.over is not None and one.over < other.began for one, other in pairwise(epochs)
    )
    first = epochs[0]
    same = all((each.order, each.batches) == (first.order, first.batches) for each in epochs)
    return epochs if one_after_the_other and same else []


def same_contents(entry: LoaderEntry) -> int:
    """The number of initial epochs with bitwise identical samples: none, or at least two."""
    first, *others = [each.marks for each in entry.epochs[:EPOCHS_NOTED] if each.marks] or [{}]
    count = 1
    for marks in others:
        common = [index for index in first if index in marks]
        if len(common) < ENOUGH_SAMPLES or any(first[index] != marks[index] for index in common):
            break
        count += 1
    return count if count > 1 else 0


def ask_why(book: BatchLedger, info: LoaderInfo) -> None:
    """At the end of an epoch, find why it repeats the one before, while all objects are alive.

    Runs once for each place where loaders are built.
    """
    entry = book.entry_of(info)
    if (
        not info.trained
        or any(each.was_asked for each in _in_place_of(book, entry))
        or info.dataset is None
    ):
        return
    is_same = bool(alike(book, entry)) and not _is_sequential(info)
    indices = next((list(each.marks) for each in entry.epochs if each.marks), [])
    repeats = not info.is_iterable and can_be_told(info.dataset) and bool(same_contents(entry))
    if not is_same and not repeats:
        return
    entry.was_asked = True
    with contextlib.suppress(NotPossible):
        if is_same:
            entry.standing = run_in_child(lambda: standing_of(info), PATIENCE, need=Need.ORDER)
        if repeats:
            entry.contents = run_in_child(
                lambda: contents_standing(info, indices), PATIENCE, need=Need.SAMPLES
            )


def _in_place_of(book: BatchLedger, entry: LoaderEntry) -> list[LoaderEntry]:
    """A loader, and others that the same line built over the same data, such as one per epoch."""
    stack = entry.info.stack
    return [
        each
        for each in book.entries.values()
        if each is entry or (stack and _is_same_place(each, entry))
    ]


def _is_same_place(one: LoaderEntry, other: LoaderEntry) -> bool:
    if one.info.stack != other.info.stack:
        return False
    if one.info.dataset is not None and one.info.dataset is other.info.dataset:
        return True
    first = [each.epochs[0] for each in (one, other) if each.epochs and each.epochs[0].order]
    return len(first) == 2 and (one.info.is_iterable or first[0].marks == first[1].marks != {})


def _is_known(epoch: Epoch) -> bool:
    return bool(epoch.order) and epoch.over is not None and epoch.batches >= FEWEST_BATCHES


def _is_sequential(info: LoaderInfo) -> bool:
    """Whether the loader does not shuffle, by its own settings."""
    return type(info.sampler()) is SequentialSampler and type(info.batch_sampler()) in (
        BatchSampler,
        type(None),
    )
