"""Streams in which each class occupies one part of the epoch, although the order changes."""

from __future__ import annotations

import contextlib

import torch

from whence.ledgers.batches import BatchLedger, Epoch, LoaderEntry
from whence.lineage.datasets.generators import reachable
from whence.lineage.datasets.stretches import buffer_of, width
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.tape.batches import LoaderInfo

PATIENCE = 10.0
FEWEST_BATCHES = 8
FEWEST_EPOCHS = 2
MOST_CLASSES = 1000
NARROW = 0.5


def half_mixed(entry: LoaderEntry) -> list[Epoch]:
    """The first epochs of such a stream, at least two; empty if the stream is mixed."""
    known = [each for each in entry.epochs if len(each.along) >= FEWEST_BATCHES and each.ended]
    if (
        not entry.info.is_iterable
        or len(known) < FEWEST_EPOCHS
        or not all(map(_is_in_stretches, known))
    ):
        return []
    first, second = (
        torch.cat([one.reshape(-1).double() for one in each.labels]) for each in known[:2]
    )
    # A stream that is the same each time may be a recording that is read in order.
    return known if len(first) != len(second) or not torch.equal(first, second) else []


def ask_for_buffer(book: BatchLedger, info: LoaderInfo) -> None:
    """At the end of an epoch with unmixed classes, find the buffer size that would mix them.

    Runs once per loader, while the stream can still be read.
    """
    entry = book.entry_of(info)
    if entry.was_stirred or not info.trained or info.dataset is None or not half_mixed(entry):
        return
    entry.was_stirred = True
    with contextlib.suppress(NotPossible):
        entry.buffer = run_in_child(
            lambda: buffer_of(info, entry.labelled), PATIENCE, need=Need.STREAM
        )
    if entry.buffer is not None:
        entry.mixer = type(dict(reachable(("self", info.dataset)))[entry.buffer.place])


def spread_of(epoch: Epoch) -> float:
    """The share of an epoch over which a class is spread."""
    positions = torch.cat([torch.full((len(each),), float(number)) for number, each in epoch.along])
    return width(positions, torch.cat([each.reshape(-1).double() for _, each in epoch.along]))


def _is_in_stretches(epoch: Epoch) -> bool:
    labels = torch.cat([each.reshape(-1).double() for _, each in epoch.along])
    whole = bool((labels == labels.round()).all())
    return (
        whole
        and len(set(labels.tolist())) <= min(MOST_CLASSES, len(labels) // 8)
        and spread_of(epoch) < NARROW
    )
