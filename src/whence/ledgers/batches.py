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
    """One pass over a loader."""

    batches: int = 0
    ended: bool = False
    labels: list[torch.Tensor] = field(default_factory=list)
    """The last leaf with one value per sample, for each of the first batches."""
    along: list[tuple[int, torch.Tensor]] = field(default_factory=list)
    """The same leaf for some batches of the whole epoch, each with its batch number."""
    stride: int = 1
    """The distance between two of these batches."""
    marks: dict[Any, float] = field(default_factory=dict)
    """For samples of the first batches, by dataset index: a fingerprint of the contents."""
    seen: dict[float, set[int]] = field(default_factory=dict)
    """For samples without an index: the workers that delivered each fingerprint."""
    samples: int = 0
    order: int = 0
    """A fingerprint of the order of samples in the first batches; 0 if unknown."""
    stack: tuple[Site, ...] = ()
    """Where the epoch began."""
    began: int = 0
    """The ledger's time, which advances when an epoch begins or ends."""
    over: int | None = None
    steps: dict[OptimizerEntry, int] = field(default_factory=dict)
    """The step count of each optimizer when the epoch began."""
    trained: frozenset[OptimizerEntry] = frozenset()
    """The optimizers that stepped during the epoch."""

    def note_along(self, labels: torch.Tensor | None) -> None:
        """Keep the labels of the current batch; halve the kept batches when there are too many."""
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
    """The first few epochs, and the current one."""
    number: int = 0
    """The number of epochs begun."""
    summary: Summary = field(default_factory=Summary)
    """Statistics of the first batches."""
    pixels: dict[str, bool] = field(default_factory=dict)
    """For leaves that may be images: whether all values are whole numbers."""
    sized: dict[str, Spot | None] = field(default_factory=dict)
    """For leaves of unusual scale: the line that scaled them, once it was searched."""
    habits: Habits | None = None
    """How the dataset produces a sample, once that was tried."""
    indices: list[Any] = field(default_factory=list)
    """The indices of the first batch."""
    labelled: str = ""
    """The path of the labels within a batch."""
    is_noted: bool = True
    """Whether more than the number of batches is recorded."""
    parting: Parting | None = None
    """How the collate function mispairs inputs and targets, once that was tried."""
    was_divided: bool = False
    """Whether the samples were checked for divisions by 255."""
    was_paired: bool = False
    within: Within | None = None
    """How the windows contain their targets, for a dataset of plain tensors."""
    was_slid: bool = False
    reached: torch.Tensor | None = None
    """How much the loss depends on each position of such a window, in one recorded pass."""
    was_compared: bool = False
    """Whether the labels were compared with a table stored beside the data files."""
    was_ended: bool = False
    """Whether the end symbols of the samples were searched for among the labels."""
    standing: Standing | None = None
    """Why the epochs have the same order, once that was tried."""
    was_asked: bool = False
    contents: Standing | None = None
    """Why the samples are the same in each epoch."""
    buffer: Buffer | None = None
    """The shuffle buffer that would mix the classes, once that was tried."""
    mixer: type | None = None
    """The class of the object with that buffer."""
    was_stirred: bool = False

    @property
    def shown(self) -> Within | None:
        """The targets that were found inside the windows."""
        return self.habits.within if self.habits is not None else self.within


class BatchLedger:
    """Batches of the last few loaders, bounded: only labels of some batches are kept."""

    def __init__(self, allows: Allows = always) -> None:
        self.entries: dict[int, LoaderEntry] = {}
        self._allows = allows
        self._loaders = 0
        self.present = 0
        """When the epoch of the last batch began, in the ledger's time; 0 before the first."""
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
        """Find which positions of a window a loss depends on, if windows contain their targets."""
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
        """Close an epoch, even if the program left it before its end."""
        if epoch.over is None:
            self._time += 1
            epoch.over = self._time
            epoch.trained = frozenset(
                each for each, count in steps.items() if count != epoch.steps.get(each, 0)
            )

    def count(self, info: LoaderInfo) -> bool:
        """Count a batch. True if its contents should be recorded too."""
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
        """Count batches of a loader whose contents are already known."""
        entry = self.entry_of(info)
        if entry.epochs:
            entry.epochs[-1].batches += count

    def note(self, batch: Batch, data: Any) -> None:
        """Record the contents of a batch that was counted."""
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
        # NumPy arrays and lists of numbers are read like tensors.
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
            # A batch sampler may yield slices or lists, which are not hashable.
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
    """One fingerprint per sample, of all its leaves."""
    size = len(leaves[0])
    total = torch.zeros(size, dtype=torch.float64)
    for number, leaf in enumerate(leaves):
        if len(leaf) == size:
            total += marks_of_rows(leaf.detach().reshape(size, -1), shift=7.3 * number)
    found: list[float] = total.tolist()
    return found


def _reached(study: Study, leaf: Value) -> torch.Tensor | None:
    """How much a loss depends on each position of a sample.

    A position that is the same in all samples, such as a masked one, counts as zero.
    """
    if any(
        each is leaf or each.storage == leaf.storage
        for call in study.calls
        for each in call.changed
    ):
        # The gradient would belong to the values written later.
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
