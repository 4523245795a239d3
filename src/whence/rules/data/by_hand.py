"""Hand-written batching: the order in which labels reach the loss."""

from __future__ import annotations

from itertools import accumulate, groupby

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.labels import Stream
from whence.lineage.loops.feeding import Feed
from whence.rules.data.blocks import KEEP
from whence.rules.telling import silent_finding, spot_at
from whence.source.discarded import discarded_in_program

ENOUGH_SAMPLES = 32
MOST_CLASSES = 1000
LEAST_STEPS = 0.45
"""Optimizer steps per batch; fewer than one if gradients are accumulated."""


def sorted_in_loop(audit: Audit) -> Finding | None:
    """Labels that reach a loss class by class, in the same order in every epoch."""
    for stream in audit.labels.streams.values():
        classes = class_by_class(stream)
        if not classes:
            continue
        loss = spot_at(stream.stack[0])
        loop = Feed().of_loss(stream.stack)
        alone = sum(len(set(each)) == 1 for each in stream.batches) / len(stream.batches)
        mixed = discarded_in_program()
        return silent_finding(
            audit,
            "data/sorted",
            spot=mixed or (loop.spot if loop is not None else loss),
            symptom=loss,
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"the training data is sorted by class: {classes} classes in sequence, in each "
            "epoch",
            what=f"{alone:.0%} of the batches contain a single class",
            why="If a batch contains one class, predicting that class for every input lowers its "
            "loss fastest.",
            fix=KEEP
            if mixed is not None
            else "Use a new random order in each epoch: iterate over torch.randperm(n), or shuffle "
            "the list.",
        )
    return None


def class_by_class(stream: Stream) -> int:
    """The number of classes, if they come in sequence and again in the next epoch; else 0.

    An epoch is recognized by its inputs, which repeat. Labels that merely alternate, as in time
    series, games and adversarial training, form no epochs.
    """
    batches = stream.batches
    if len(stream.steps) < LEAST_STEPS * len(batches):
        # An evaluation with gradients enabled: nothing is trained between its batches.
        return 0
    labels = [label for batch in batches for label in batch]
    runs = [(label, len(list(same))) for label, same in groupby(labels)]
    classes = len({label for label, _ in runs})
    if len(labels) < ENOUGH_SAMPLES or not 2 <= classes <= min(MOST_CLASSES, len(labels) // 8):
        return 0
    if (
        len(runs) < classes + 2
        or len({label for label, _ in runs[:classes]}) < classes
        or len(batches) < 2 * len(runs)
    ):
        return 0
    alone = sum(len(set(each)) == 1 for each in batches) / len(batches)
    samples = sum(length for _, length in runs[:classes])
    ends = list(accumulate(map(len, batches)))
    if alone < 0.6 or samples not in ends:
        return 0
    marks, epoch = stream.marks, ends.index(samples) + 1
    again = [
        one == other for one, other in zip(marks, marks[epoch:], strict=False) if one is not None
    ]
    return classes if len(again) > 1 and sum(again) > 0.8 * len(again) else 0
