"""The ledger of batches: what each loader delivered, epoch by epoch."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from whence.data.leaves import leaves_of
from whence.data.summary import Summary
from whence.ledgers.allowance import Allows, always
from whence.ledgers.loop import OptimizerEntry
from whence.ledgers.marks import marks_of_rows
from whence.ledgers.study import Study
from whence.lineage.datasets.epochs import Standing
from whence.lineage.datasets.habits import Habits
from whence.lineage.datasets.pairing import Parting
from whence.lineage.datasets.stretches import Buffer
from whence.lineage.datasets.windows import Within
from whence.lineage.dependence import reach
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.batches import Batch, BatchLeaf, LoaderInfo
from whence.tape.tape import Value

MOST_LOADERS = 16
EPOCHS_NOTED = 3
BATCHES_NOTED = 64
BATCHES_SUMMARISED = 6
MOST_LABELS = 4096
MOST_ELEMENTS = 1_000_000


@dataclass(eq=False, slots=True)
class Epoch:
    """One way through a loader."""

    batches: int = 0
    ended: bool = False
    labels: list[torch.Tensor] = field(default_factory=list)
    """Of the first batches, the last leaf that has one number for each sample."""
    along: list[tuple[int, torch.Tensor]] = field(default_factory=list)
    """The same of some batches from the first to the last, each with its number."""
    stride: int = 1
    """How many batches lie between two of these."""
    marks: dict[Any, float] = field(default_factory=dict)
    """For samples of the first batches, by their dataset index: a number that tells their contents apart."""
    seen: dict[float, set[int]] = field(default_factory=dict)
    """Where samples have no index: which workers have brought each."""
    samples: int = 0
    order: int = 0
    """Of the first batches: a number that tells apart in which order samples came. 0 if nothing is known of that."""
    stack: tuple[Site, ...] = ()
    """Where it began."""
    began: int = 0
    """The time of the ledger, which moves on when an epoch begins or is over."""
    over: int | None = None
    steps: dict[OptimizerEntry, int] = field(default_factory=dict)
    """What optimizers had done when it began."""
    trained: frozenset[OptimizerEntry] = frozenset()
    """Those that stepped while it lasted."""

    def note_along(self, labels: torch.Tensor | None) -> None:
        """Keep the labels of the present batch, and of half of those before where there are too many."""
        if (
            labels is None
            or self.batches % self.stride
            or labels.dim() != 1
            or len(labels) > MOST_LABELS
        ):
            return
        self.along.append((self.batches, labels.detach().clone()))
        if len(self.along) > 2 * BATCHES_NOTED:
            self.stride *= 2
            self.along = [
                (number, each) for number, each in self.along if number % self.stride == 0
            ]


@dataclass(eq=False, slots=True)
class LoaderEntry:
    info: LoaderInfo
    epochs: list[Epoch] = field(default_factory=list)
    """The first few, and the present one."""
    number: int = 0
    """Epochs begun."""
    summary: Summary = field(default_factory=Summary)
    """Of the first batches."""
    pixels: dict[str, bool] = field(default_factory=dict)
    """For leaves that may be pictures: whether all of their numbers are whole ones."""
    sized: dict[str, Spot | None] = field(default_factory=dict)
    """For leaves whose numbers are of an odd size: the line that made them so, once that was asked."""
    habits: Habits | None = None
    """What its dataset does when it is asked for a sample, once that was tried."""
    indices: list[Any] = field(default_factory=list)
    """Of the samples of the first batch."""
    labelled: str = ""
    """Where in a batch its labels are."""
    is_noted: bool = True
    """Whether more is noted of its batches than their number."""
    parting: Parting | None = None
    """How its collate function parts what belongs together, once that was tried."""
    was_divided: bool = False
    """Whether divisions by 255 were looked at while its samples are made."""
    was_paired: bool = False
    within: Within | None = None
    """How its windows have their targets in them, where it is made of plain tensors."""
    was_slid: bool = False
    reached: torch.Tensor | None = None
    """How much the loss depends on each place of such a window, in one recorded pass after they were found."""
    was_compared: bool = False
    """Whether a sheet beside its files was held against its labels."""
    was_ended: bool = False
    """Whether the ends of its samples were looked for among the labels."""
    standing: Standing | None = None
    """Why its epochs are alike, once that was asked."""
    was_asked: bool = False
    contents: Standing | None = None
    """The same for what its samples are."""
    buffer: Buffer | None = None
    """What would mix its classes, once that was tried."""
    mixer: type | None = None
    """The class of what has that."""
    was_stirred: bool = False

    @property
    def shown(self) -> Within | None:
        """Targets that were found within its windows."""
        return self.habits.within if self.habits is not None else self.within


class BatchLedger:
    """Bounded. Of the last few loaders it keeps labels of some batches, and nothing else of what was delivered."""

    def __init__(self, allows: Allows = always) -> None:
        self.entries: dict[int, LoaderEntry] = {}
        self._allows = allows
        self._loaders = 0
        self.present = 0
        """When the epoch that the last batch came in began, by the time of the ledger; 0 before there was one."""
        self._time = 0

    def entry_of(self, info: LoaderInfo) -> LoaderEntry:
        entry = self.entries.get(id(info))
        if entry is None:
            entry = self.entries[id(info)] = LoaderEntry(info)
            if len(self.entries) > MOST_LOADERS:
                # Some programs build a loader for every epoch.
                del self.entries[next(iter(self.entries))]
        return entry

    def look(self, study: Study) -> None:
        """Where windows have their targets in them: which places of one a loss depends on."""
        asked = {
            f"[{entry.shown.window}]": entry
            for entry in self.entries.values()
            if entry.shown is not None
        }
        for value in {each for call in study.calls for each in call.operands} if asked else ():
            leaf = value.leaf if value.dtype.is_floating_point else None
            entry = asked.get(leaf.path) if isinstance(leaf, BatchLeaf) else None
            if isinstance(leaf, BatchLeaf) and entry is not None and entry.info is leaf.batch.info:
                found = _reached(study, value) if entry.reached is None else None
                entry.reached = found if found is not None and bool(found.any()) else entry.reached

    def trained(self) -> list[LoaderEntry]:
        return [each for each in self.entries.values() if each.info.trained]

    def epoch_began(
        self, info: LoaderInfo, stack: tuple[Site, ...], steps: dict[OptimizerEntry, int]
    ) -> None:
        entry = self.entry_of(info)
        entry.number += 1
        if entry.number == 1:
            entry.is_noted = self._allows("loaders", id(info), self._loaders)
            self._loaders += 1
        info.is_known = entry.number > EPOCHS_NOTED or not entry.is_noted
        if entry.epochs:
            self._close(entry.epochs[-1], steps)
        if len(entry.epochs) > EPOCHS_NOTED:
            entry.epochs.pop()
        self._time += 1
        entry.epochs.append(Epoch(stack=stack, began=self._time, steps=steps))

    def epoch_ended(self, info: LoaderInfo, steps: dict[OptimizerEntry, int]) -> Epoch | None:
        entry = self.entry_of(info)
        if not entry.epochs or entry.epochs[-1].ended:
            return None
        entry.epochs[-1].ended = True
        self._close(entry.epochs[-1], steps)
        return entry.epochs[-1]

    def _close(self, epoch: Epoch, steps: dict[OptimizerEntry, int]) -> None:
        """It is over, also if the program has left it before its end."""
        if epoch.over is None:
            self._time += 1
            epoch.over = self._time
            epoch.trained = frozenset(
                each for each, count in steps.items() if count != epoch.steps.get(each, 0)
            )

    def count(self, info: LoaderInfo) -> bool:
        """One more batch. True if more than that is to be noted of it."""
        entry = self.entries.get(id(info)) or self.entry_of(info)
        if not entry.epochs:
            return False
        epoch = entry.epochs[-1]
        epoch.batches += 1
        self.present = epoch.began
        if info.is_known:
            return False
        return epoch.batches <= BATCHES_NOTED or epoch.batches % epoch.stride == 0

    def pass_over(self, info: LoaderInfo, count: int) -> None:
        """Batches of a loader that is known."""
        entry = self.entry_of(info)
        if entry.epochs:
            entry.epochs[-1].batches += count

    def note(self, batch: Batch, data: Any) -> None:
        """What a batch that was counted looks like."""
        entry = self.entry_of(batch.info)
        epoch = entry.epochs[-1]
        if epoch.batches > BATCHES_NOTED:
            found = (
                each.part.numbers
                for each in leaves_of(data)
                if each.path == entry.labelled and each.part
            )
            epoch.note_along(next(found, None))
            return
        if not entry.indices and batch.indices is not None:
            entry.indices = list(batch.indices)
        if batch.indices is not None:
            epoch.order = hash((epoch.order, *map(repr, batch.indices)))
        # Arrays of numpy's and lists of numbers are read like tensors.
        tensors = [
            (leaf.path, leaf.part.numbers)
            for leaf in leaves_of(data)
            if leaf.part is not None
            and leaf.part.numbers is not None
            and _is_plain(leaf.part.numbers)
        ]
        if not tensors:
            return
        path, labels = next(
            (
                (path, leaf)
                for path, leaf in reversed(tensors)
                if leaf.dim() == 1 and len(leaf) <= MOST_LABELS
            ),
            ("", None),
        )
        if labels is not None:
            entry.labelled = path
            epoch.labels.append(labels.detach().clone())
            epoch.note_along(labels)
        marks = _marks([leaf for _, leaf in tensors])
        if batch.indices is None:
            epoch.order = hash((epoch.order, *marks))
        if batch.indices is not None and len(batch.indices) == len(marks):
            # A dataset may be asked for samples by something that is no key, a slice or a list.
            with suppress(TypeError):
                epoch.marks.update(zip(batch.indices, marks, strict=True))
        elif batch.indices is None:
            epoch.samples += len(marks)
            for mark in marks:
                epoch.seen.setdefault(mark, set()).add(batch.worker or 0)
        if entry.number == 1 and epoch.batches <= BATCHES_SUMMARISED:
            entry.summary.add(data)
            for path, leaf in tensors:
                if leaf.is_floating_point() and leaf.dim() > 2:
                    whole = bool((leaf == leaf.round()).all())
                    entry.pixels[path] = entry.pixels.get(path, True) and whole


def _is_plain(numbers: torch.Tensor) -> bool:
    return (
        numbers.device.type == "cpu" and 0 < numbers.numel() <= MOST_ELEMENTS and numbers.dim() > 0
    )


def _marks(leaves: list[torch.Tensor]) -> list[float]:
    """For each sample, a number that depends on all that it consists of."""
    size = len(leaves[0])
    total = torch.zeros(size, dtype=torch.float64)
    for number, leaf in enumerate(leaves):
        if len(leaf) == size:
            total += marks_of_rows(leaf.detach().reshape(size, -1), shift=7.3 * number)
    found: list[float] = total.tolist()
    return found


def _reached(study: Study, leaf: Value) -> torch.Tensor | None:
    """How much a loss depends on each place of a sample; none on a place that is the same in all of them, as one that was hidden."""
    if any(
        each is leaf or each.storage == leaf.storage
        for call in study.calls
        for each in call.changed
    ):
        # A gradient would be that of what was written.
        return None
    given = study.content(leaf)
    found: torch.Tensor | None = None
    for loss in study.losses if given is not None else ():
        run = study.again(loss.value, leaf, gradients=True, towards={leaf})
        size = reach(run, loss.value, (), leaf) if run is not None else None
        if size is not None and given is not None:
            varies = (given != given[:1]).any(0)
            here = (size.mean(0) * varies).float().cpu()
            found = here if found is None else found + here
    return found
