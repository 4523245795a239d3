"""The order and the number of the batches that a loader delivers."""

from __future__ import annotations

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.batches import Epoch, LoaderEntry
from whence.rules.data.blocks import (
    KEEP,
    discarded_shuffle,
    ordered_by,
    ordered_within,
    runs_of,
    stored_by_class,
    stream_loop,
)
from whence.rules.data.by_hand import ENOUGH_SAMPLES, MOST_CLASSES, sorted_in_loop
from whence.rules.data.edits import (
    as_list_patch,
    keep_draw_patch,
    shuffled,
    split_stream_patch,
)
from whence.rules.data.empty import FIX, WHY, origin_of_empty
from whence.rules.data.half_mixed import sorted_behind_buffer
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding, spot_at
from whence.source.classes import attribute_of
from whence.source.spots import Spot


@audit_rule("data/empty-epoch", Rank.CAUSE)
def empty_epoch(audit: Audit) -> Finding | None:
    """An epoch had no batches.

    What happened
        A loader was iterated and yielded nothing: fewer samples than a batch with drop_last, an
        empty dataset, an iterator that was exhausted in the previous epoch.
    Why it matters
        The loop's body does not run. Nothing is trained or validated, and nothing reports it.
    How it is detected
        A loader ends before its first batch, or cannot be built because a sampler rejects an empty
        dataset. For a loop over an iterator inside another loop: the outer loop is in a later
        iteration and past the inner loop, no step was made in that iteration, and the iterator is
        exhausted.
    How to fix it
        Keep the last batch, find out why the dataset is empty, or create the iterator in each
        epoch.
    When it stays silent
        Loaders that are never iterated. Iterators that are created again, inner loops that end
        early or are conditional.
    Cost
        A count per batch. For loops over iterators: a check of the program's lines while it is
        recorded.
    """
    for entry in audit.batches.entries.values():
        epoch = entry.epochs[-1] if entry.epochs else None
        if epoch is None or not epoch.ended or epoch.batches:
            continue
        info, length = entry.info, entry.info.length()
        built = info.built
        before = any(each.batches for each in entry.epochs)
        used_up = _used_up(entry) if before else None
        if before and (info.is_iterable or used_up is not None):
            spot = used_up
            why = "The loader uses an iterator that the previous epoch exhausted."
            fix = "Create the iterator in __iter__, or open the file there."
        elif length == 0:
            site = info.stack[0] if info.stack else None
            frame = next(
                (each for each in audit.frames if site is not None and each.f_code is site.f_code),
                None,
            )
            spot, why, fix = origin_of_empty(info.dataset, site, frame), WHY, FIX
        elif (
            info.drop_last
            and length is not None
            and info.batch_size is not None
            and length < info.batch_size
        ):
            spot = built
            why = (
                f"{length} samples are fewer than a batch of {info.batch_size}, and drop_last "
                "drops the incomplete batch."
            )
            fix = "Use a smaller batch size, or drop_last=False."
        else:
            spot, why, fix = (
                built,
                "The loader ended before its first batch.",
                "Check the loader's sampler and dataset.",
            )
        return silent_finding(
            audit,
            "data/empty-epoch",
            spot=spot or built,
            symptom=spot_at(audit.stack[0] if audit.stack else None),
            step=audit.step,
            phase="data",
            severity=Severity.ERROR if before or info.drop_last else Severity.WARNING,
            verdict=f"epoch {entry.number} had no batches",
            what=f"the body of this loop did not run in epoch {entry.number} of this loader",
            why=why,
            fix=fix,
        )
    return _exhausted_in_loop(audit)


def _exhausted_in_loop(audit: Audit) -> Finding | None:
    """A loop over an iterator that an earlier iteration of the outer loop has exhausted."""
    for each in audit.rounds.empty:
        return silent_finding(
            audit,
            "data/empty-epoch",
            spot=each.made or each.inner,
            symptom=each.inner,
            step=audit.step,
            phase="data",
            verdict=f"no step was made at {each.variable} = {each.empty}: the loop's iterator is "
            "exhausted",
            what=f"the body of this loop has not run since {each.variable} = {each.turn}",
            why="An iterator (a generator, zip, map, iter(...), an open file) yields its elements "
            "only once.",
            fix="Create the iterator inside the outer loop, in each epoch, or keep its elements in "
            "a list.",
            patch=as_list_patch(each.made, each.inner),
        )
    return None


def _used_up(entry: LoaderEntry) -> Spot | None:
    """Where an attribute of the dataset or sampler is set to an iterator."""
    info = entry.info
    batches = info.batch_sampler()
    for holder in (
        batches,
        getattr(batches, "sampler", None),
        info.sampler(),
        info.dataset if info.is_iterable else None,
    ):
        for name, thing in vars(holder).items() if hasattr(holder, "__dict__") else ():
            if (
                hasattr(thing, "__next__")
                and (found := attribute_of(type(holder), name)) is not None
            ):
                return found
    return None


@audit_rule("data/sorted", Rank.CALL)
def sorted_labels(audit: Audit) -> Finding | None:
    """Training data arrives sorted by class.

    What happened
        All samples of one class come first, then all of the next. Each batch has a single class.
    Why it matters
        Each batch pulls the model towards its own class, and the next one undoes it.
    How it is detected
        The labels of a training loader's epoch have hardly more runs of equal labels than classes,
        as delivered; or as stored, if whole blocks are reordered and batches still have one class.
        For a stream that is shuffled differently in each epoch: each class has its own part of the
        epoch, as behind a shuffle buffer that is too small; larger sizes are tried in a child
        process. If the program computes a random order and discards it, that line is reported.
        Without a loader, the labels that reach a loss: all of one class, then all of the next, and
        the same in the next epoch.
    How to fix it
        shuffle=True, or a sampler that shuffles; without a loader, a new random order in each
        epoch.
    When it stays silent
        Loaders that are only evaluated, labels that alternate (time series), a class that returns.
        Without a loader, also a single epoch.
    Cost
        A copy of the labels of the first batches.
    """
    for entry in audit.batches.trained():
        epoch = next((each for each in entry.epochs if len(each.labels) > 3), None)
        if epoch is None or not (epoch.ended or audit.final):
            continue
        batches = _batches(epoch)
        labels = torch.cat([each.reshape(-1).double() for each in batches])
        classes, runs = _different(labels), runs_of(labels)
        whole = bool((labels == labels.round()).all())
        alone = sum(_different(each) == 1 for each in batches) / len(batches)
        if (
            len(labels) < ENOUGH_SAMPLES
            or not whole
            or not 2 <= classes <= min(MOST_CLASSES, len(labels) // 8)
        ):
            continue
        if alone < 0.6:
            continue
        in_blocks = runs > 1.5 * classes
        if in_blocks and not stored_by_class(audit, entry, epoch, labels, most=1.5 * classes):
            continue
        maker = entry.info.kind if entry.info.is_iterable else entry.info.sampler_kind
        mixed = None if in_blocks else discarded_shuffle(maker)
        ordered = ordered_within(entry) if in_blocks else ordered_by(maker)
        plain = mixed is None and ordered is None and not entry.info.is_iterable
        return silent_finding(
            audit,
            "data/sorted",
            spot=mixed or ordered or entry.info.built,
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"the training data is sorted by class: {classes} classes in {runs} runs",
            what=f"{alone:.0%} of the batches contain a single class",
            why="If a batch contains one class, predicting that class for every input lowers its "
            "loss fastest.",
            fix=KEEP
            if mixed is not None
            else "Shuffle the data: DataLoader(..., shuffle=True), or shuffle where the order is "
            "made.",
            patch=shuffled(entry.info.built) if plain else keep_draw_patch(mixed),
        )
    return sorted_behind_buffer(audit) or sorted_in_loop(audit)


def _batches(epoch: Epoch) -> list[torch.Tensor]:
    """The labels of the first batches, or of batches from the whole epoch if it is longer."""
    first = torch.cat([each.reshape(-1).double() for each in epoch.labels])
    is_longer = epoch.batches > len(epoch.labels) and epoch.ended
    return (
        [each for _, each in epoch.along]
        if is_longer and runs_of(first) <= 1.5 * _different(first)
        else epoch.labels
    )


def _different(labels: torch.Tensor) -> int:
    return len(set(labels.reshape(-1).tolist()))


@audit_rule("data/duplicated-stream", Rank.CALL)
def duplicated_stream(audit: Audit) -> Finding | None:
    """Every worker yields the whole stream.

    What happened
        An IterableDataset with several workers: each worker has a copy and iterates over all of it.
        Every sample is delivered once per worker.
    Why it matters
        An epoch is too long, batches repeat, and counts and metrics are wrong.
    How it is detected
        The samples of an epoch are compared by their values: nearly all came from several workers.
    How to fix it
        Split the stream with torch.utils.data.get_worker_info().
    When it stays silent
        One worker, streams that are split, random streams that never repeat.
    Cost
        One number per sample of the first batches of a stream with workers.
    """
    for entry in audit.batches.entries.values():
        info = entry.info
        if not info.is_iterable or info.workers < 2:
            continue
        epoch = next((each for each in entry.epochs if each.ended and len(each.seen) > 7), None)
        if epoch is None:
            continue
        repeated = sum(len(workers) > 1 for workers in epoch.seen.values())
        if repeated < 0.8 * len(epoch.seen):
            continue
        return silent_finding(
            audit,
            "data/duplicated-stream",
            spot=stream_loop(info.kind) or info.built,
            symptom=info.built,
            step=audit.step,
            phase="data",
            verdict=f"every sample is delivered {info.workers} times: each of {info.workers} "
            "workers yields the whole stream",
            what=f"{epoch.samples} samples in the first epoch, {len(epoch.seen)} of them distinct",
            why="Each worker process has its own copy of the dataset and iterates over all of it.",
            fix="Split the stream in __iter__: info = get_worker_info(), then "
            "islice(stream, info.id, None, info.num_workers).",
            patch=split_stream_patch(stream_loop(info.kind)),
        )
    return None
