"""Survey data without training: a loader, a dataset, an array, a frame or a tensor.

Loaders and datasets are iterated under a watch, so that the data rules of training apply here too.
Arrays and frames are judged by their summary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from whence.config import Config
from whence.data.facts import Facts
from whence.data.marks import FIX, WHY, mark_in
from whence.data.sources import BatchReader, random_streams_kept
from whence.data.summary import ArraySummary, Summary
from whence.finding import Confidence, Finding, Origin, Outcome, Severity, Span, Symptom, described
from whence.lineage.datasets.samples import trace_into_batch
from whence.lineage.properties import NotFinite
from whence.record import Record
from whence.source.sites import user_stack
from whence.source.spots import Spot
from whence.tape.batches import Batch, BatchLeaf, leaves_of
from whence.tape.replay import trouble_in
from whence.tape.scene import Scene
from whence.watching.session import Session

Progress = Callable[[int], None]
BATCH = 32


class NoData(TypeError):
    """The argument cannot be read as data."""


@dataclass(frozen=True, slots=True)
class Row:
    """One column of the data, as shown in the table."""

    leaf: str
    column: str
    dtype: str
    shape: str
    low: float | None
    high: float | None
    mean: float | None
    spread: float | None
    missing: float
    """Share of NaN and other missing values."""
    kinds: int | None = None
    """Number of distinct words, for text columns with few enough of them."""


@dataclass(frozen=True, slots=True)
class DataReport:
    """Summary and findings of a survey."""

    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]
    samples: int
    batches: int
    stopped_by: str | None = None
    """Exception from the data's own code that ended the survey."""

    @property
    def ok(self) -> bool:
        return self.stopped_by is None and all(
            each.severity is Severity.INFO for each in self.findings
        )

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        found = [each for each in self.findings if each.severity is not Severity.INFO]
        said = counted(len(found), "finding") if found else "nothing found"
        head = (
            f"whence data: {counted(self.samples, 'sample')} in "
            f"{counted(self.batches, 'batch', 'batches')}, {said}"
        )
        if self.stopped_by is not None:
            head += f"; ended by {self.stopped_by}"
        lines = [
            f"  {each.severity} {each.rule}  {each.origin.file}:{each.origin.line}  {each.verdict}"
            for each in self.findings
        ]
        return "\n".join([head, *lines])


def counted(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"


def check_data(
    data: Any, *, most_batches: int | None = None, progress: Progress | None = None
) -> DataReport:
    """Survey data without training.

    Takes a DataLoader, a dataset, a numpy array, a pandas frame, a tensor, a structure of these, or
    any iterable of batches. Random states are restored afterwards.
    """
    stack = user_stack(sys._getframe(1))
    here = Spot.of_site(stack[0]) if stack else Spot("<data>", Span(0, 0, 0, 0), "")
    return look_through(data, here, most_batches, progress)


def look_through(
    data: Any, here: Spot, most_batches: int | None, progress: Progress | None
) -> DataReport:
    """Survey data, reporting findings at the given place."""
    with random_streams_kept(data):
        if isinstance(data, DataLoader):
            return _through_loader(data, here, most_batches, progress, ignore=())
        if isinstance(data, Dataset):
            loader: Any = DataLoader(data, batch_size=BATCH)
            # A dataset's storage order is not its training order.
            return _through_loader(loader, here, most_batches, progress, ignore=("data/sorted",))
        summary = Summary()
        for number, batch in enumerate(_batches(data)):
            if most_batches is not None and number >= most_batches:
                break
            summary.add(batch)
            if progress is not None:
                progress(summary.batches)
        if (kinds := _unreadable(summary)) and not any(_columns(summary)):
            raise NoData(
                "expected a loader, a dataset, an array or a frame, or arrays in a structure; "
                f"got {', '.join(kinds)}"
            )
        rows = tuple(_rows(summary))
        return DataReport(rows, tuple(_judged(summary, here)), summary.rows, summary.batches)


def batches_in(data: Any, most: int | None) -> int | None:
    """Return the number of batches, where it is known beforehand."""
    length: int | None = None
    with suppress(TypeError):
        length = len(data) if isinstance(data, DataLoader) else None
        length = (
            -(-len(data) // BATCH)
            if isinstance(data, Dataset) and isinstance(data, Sized)
            else length
        )
    return length if most is None or length is None else min(most, length)


def _batches(data: Any) -> Iterator[Any]:
    """Yield batches: an array or a structure of arrays is one, an iterator gives several."""
    if isinstance(data, Iterable) and hasattr(data, "__next__"):
        yield from data
    else:
        yield data


class _Quiet:
    """A screen that shows nothing; findings go to the report."""

    def hold(self, finding: Finding) -> None: ...
    def release(self) -> None: ...


def _through_loader(
    loader: Any, here: Spot, most: int | None, progress: Progress | None, ignore: tuple[str, ...]
) -> DataReport:
    session = Session(Config(ignore=ignore), Record(), _Quiet())
    session.start()
    session.loaders.info_of(loader).place = here
    summary, bad, stopped = Summary(), list[tuple[Batch, str, torch.Tensor]](), None
    reader, batches = BatchReader(loader.collate_fn), 0
    try:
        for data in loader:
            batches += 1
            with session.looking():
                current, size = session.loaders.current, None
                if current is not None:
                    current.info.trained = True
                    size = len(current.indices) if current.indices is not None else None
                    bad += [
                        (current, path, leaf)
                        for path, leaf in leaves_of(data)
                        if not bad and trouble_in(leaf)
                    ]
                for leaves in reader.read(data, size):
                    summary.add_leaves(leaves)
            if progress is not None:
                progress(batches)
            if most is not None and batches >= most:
                break
    except Exception as exception:
        stopped = described(exception)
        session.program_failed(exception)
    with session.looking():
        found = [_not_finite(session, *bad[0], here)] if bad else []
    findings = (*session.close(Outcome(exception=stopped)).findings, *found)
    judged = [each for each in _judged(summary, here) if each.rule != "data/nonfinite" or not found]
    return DataReport(tuple(_rows(summary)), (*findings, *judged), summary.rows, batches, stopped)


def _not_finite(
    session: Session, batch: Batch, path: str, leaf: torch.Tensor, here: Spot
) -> Finding:
    """Report the sample, and the line that made it non-finite."""
    scene = Scene(**session.scene([]))
    value = session.tape.value_of(leaf)
    trail = trace_into_batch(BatchLeaf(batch, path), value, NotFinite(session.tape), scene)
    spot, sample = trail.spot or here, trail.sample
    which = (
        f" in sample {sample.dataset_index}"
        if sample is not None and sample.dataset_index is not None
        else ""
    )
    kind = "NaN" if trouble_in(leaf) == "nan" else "Inf"
    column = _bad_column(leaf)
    where, joint = f"{column}{path}" if path else "", ", " if which and column else " of "
    return Finding(
        rule="data/nonfinite",
        severity=Severity.ERROR,
        confidence=Confidence.PROVEN,
        verdict=f"the data have {kind}{which}{f'{joint}{where}' if where else ''}",
        origin=Origin(
            spot.file, spot.line, spot.code, spot.function, op=trail.op, phase="data", sample=sample
        ),
        symptom=Symptom(
            here.file, here.line, here.code, what=f"batch {batch.number} is not finite"
        ),
        chain=trail.hops,
        why=(
            "One such sample makes the loss of its batch NaN, and one update makes every weight "
            "NaN."
        ),
        fix="Fix the value where it is computed, or drop the sample.",
        span=spot.span,
    )


def _bad_column(leaf: torch.Tensor) -> str:
    """Name the first bad column of a table."""
    if leaf.dim() != 2 or leaf.shape[1] < 2:
        return ""
    return f"column {int(torch.isfinite(leaf).logical_not().any(0).nonzero()[0])} of "


def _columns(summary: Summary) -> Iterator[tuple[str, str, ArraySummary, Facts]]:
    for path, leaf in summary.leaves.items():
        arrays = [("", leaf.array)] if leaf.array is not None else []
        arrays += [(str(name), each) for name, each in (leaf.frame or {}).items()]
        for name, array in arrays:
            if array.numbers is None:
                continue
            facts = array.numbers.facts()
            for number, each in enumerate(facts):
                yield path, name or (str(number) if len(facts) > 1 else ""), array, each


def _unreadable(summary: Summary) -> list[str]:
    """Return the types of leaves that are neither numbers nor words."""
    arrays = [each.array for each in summary.leaves.values() if each.array is not None]
    return [
        name
        for each in arrays
        if each.numbers is None and each.tally is None
        for name in each.dtypes
    ]


def _rows(summary: Summary) -> Iterator[Row]:
    for path, column, array, facts in _columns(summary):
        yield Row(
            leaf=path,
            column=column,
            dtype=next(iter(array.dtypes), ""),
            shape=_shape_text(list(array.shapes)),
            low=facts.low,
            high=facts.high,
            mean=facts.mean,
            spread=facts.std,
            missing=facts.missing / max(facts.values, 1),
        )
    for path, leaf in summary.leaves.items():
        arrays = [
            ("", leaf.array),
            *((str(name), each) for name, each in (leaf.frame or {}).items()),
        ]
        yield from (
            _words(path, name, each)
            for name, each in arrays
            if each is not None and each.numbers is None
        )


def _shape_text(shapes: list[tuple[int, ...]]) -> str:
    """Describe shapes, with `*` for each axis that varies; ranks are listed separately."""
    found = []
    for axes in sorted({len(each) for each in shapes or [()]}, reverse=True):
        alike = [each for each in shapes if len(each) == axes]
        varying = [
            str(sizes[0]) if len(set(sizes)) == 1 else "*" for sizes in zip(*alike, strict=True)
        ]
        found.append(f"(N, {', '.join(varying)})" if varying else "(N,)")
    return " or ".join(found)


def _words(path: str, column: str, array: ArraySummary) -> Row:
    tally = array.tally
    kinds = len(tally.counts) if tally is not None and not tally.overflowed else None
    missing = array.missing_words / max(array.rows, 1)
    return Row(
        path, column, next(iter(array.dtypes), ""), "(N,)", None, None, None, None, missing, kinds
    )


def _judged(summary: Summary, here: Spot) -> Iterator[Finding]:
    """Report what the summary shows: non-finite values, constant columns, placeholder values."""
    for path, column, _, facts in _columns(summary):
        name = f"column {column} of {path or 'the data'}" if column else path or "the data"
        if facts.missing or facts.infinite:
            row = facts.first_missing if facts.missing else facts.first_infinite
            kind = "NaN" if facts.missing else "Inf"
            yield _plain(
                here,
                "data/nonfinite",
                Severity.ERROR,
                f"{name} has {kind} in {facts.missing + facts.infinite} of {facts.values} "
                f"values, first in row {row}",
                "One such value makes the loss NaN, and one update makes every weight NaN.",
                "Fix the value where it is computed, impute it, or drop the row.",
            )
        elif facts.std == 0 and facts.observed > 8 and column:
            yield _plain(
                here,
                "data/zero-variance",
                Severity.INFO,
                f"{name} is constant: {facts.mean:g} in every row",
                "A constant column carries no information, and a normalisation divides by its "
                "spread of 0.",
                "Drop the column, or replace a spread of 0 by 1.",
            )
        elif column and (mark := mark_in(facts)) is not None:
            found = _plain(here, "data/unscaled", Severity.WARNING, mark.text(name), WHY, FIX)
            yield replace(found, confidence=Confidence.LIKELY)


def _plain(here: Spot, rule: str, severity: Severity, verdict: str, why: str, fix: str) -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        confidence=Confidence.PROVEN,
        verdict=verdict,
        origin=Origin(here.file, here.line, here.code, here.function, phase="data"),
        symptom=Symptom(here.file, here.line, here.code, what="surveyed the data"),
        why=why,
        fix=fix,
        span=here.span,
    )
