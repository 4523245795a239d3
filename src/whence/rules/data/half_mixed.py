"""Streams sorted by class behind a shuffle buffer smaller than a class: a form of data/sorted."""

from __future__ import annotations

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.batches import Epoch, LoaderEntry
from whence.ledgers.mixing import half_mixed, spread_of
from whence.lineage.datasets.stretches import Buffer
from whence.lineage.following.trace import SourceTrace
from whence.lineage.properties import IsNumber
from whence.rules.data.blocks import feeds_class_loss, stream_loop
from whence.rules.telling import silent_finding
from whence.source.classes import assignment_of, class_node
from whence.source.definitions import Definition, find_definition
from whence.source.spots import Spot
from whence.source.text import tree_of


def sorted_behind_buffer(audit: Audit) -> Finding | None:
    for entry in audit.batches.trained():
        epochs = half_mixed(entry)
        if not epochs or not feeds_class_loss(audit, entry):
            continue
        buffer = entry.buffer
        together, classes = _classes(epochs[0])
        return silent_finding(
            audit,
            "data/sorted",
            spot=_set_at(entry, audit) or stream_loop(entry.info.kind) or entry.info.built,
            symptom=entry.info.built,
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.PROVEN if buffer is not None else Confidence.LIKELY,
            verdict=f"the training data is nearly sorted by class: a batch has {together:.2g} of "
            f"{classes} classes",
            what=f"each class appears within {spread_of(epochs[0]):.0%} of an epoch only",
            why="The data are stored class by class, and a shuffle buffer mixes a sample only with "
            "samples read shortly before and after it.",
            fix=_fix(buffer),
            counterfactual=_tried(buffer),
        )
    return None


def _classes(epoch: Epoch) -> tuple[float, int]:
    """The mean number of classes in a batch, and the number of classes."""
    sets = [set(each.tolist()) for _, each in epoch.along]
    return sum(map(len, sets)) / len(sets), len(set[float]().union(*sets))


def _fix(buffer: Buffer | None) -> str:
    if buffer is None:
        return (
            "Shuffle the files or shards in each epoch, and use a shuffle buffer that holds "
            "several classes."
        )
    return (
        f"Shuffle the files or shards in each epoch, or use a {buffer.name} larger than several "
        "classes."
    )


def _tried(buffer: Buffer | None) -> str | None:
    if buffer is None:
        return None
    return (
        f"with an unlimited {buffer.name}, in a child process, a class is spread over "
        f"{buffer.enough:.0%} of the epoch"
    )


def _set_at(entry: LoaderEntry, audit: Audit) -> Spot | None:
    """Where the buffer size is set: a constructor argument or a literal."""
    buffer, kind = entry.buffer, entry.mixer
    if buffer is None or kind is None:
        return None
    definition: tuple[Definition, str] | None
    if buffer.is_attribute:
        definition = assignment_of(kind, buffer.name)
    else:
        filename = class_node(kind)[1]
        tree = tree_of(filename)
        found = find_definition(buffer.name, tree, None) if tree is not None else None
        definition = (found, filename) if found is not None else None
    if definition is None or definition[0].value is None:
        return None
    value, filename = definition[0].value, definition[1]
    return SourceTrace(IsNumber(buffer.size), audit.frames).follow_node(value, filename).spot
