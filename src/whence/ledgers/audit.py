"""The ledgers after some steps or at the end, for mistakes that no single step shows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.utils.data import TensorDataset

from whence.ledgers.batches import BatchLedger, LoaderEntry
from whence.ledgers.changes import ChangeLedger
from whence.ledgers.draws import DrawLedger
from whence.ledgers.inputs import InputLedger
from whence.ledgers.labels import LabelLedger
from whence.ledgers.loop import Kind, LoopLedger, OptimizerEntry
from whence.ledgers.memory import MemoryLedger
from whence.ledgers.rounds import RoundLedger
from whence.ledgers.schedules import ScheduleLedger
from whence.ledgers.units import UnitLedger
from whence.ledgers.weights import WeightEntry, WeightLedger
from whence.lineage.datasets.endings import Ending, masked_class, masked_ending
from whence.lineage.datasets.habits import Habits, habits_of
from whence.lineage.datasets.pairing import Parting, parting_of
from whence.lineage.datasets.preparing import innermost
from whence.lineage.datasets.windows import Within, target_within
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.source.sites import Site
from whence.tape.batches import LoaderInfo
from whence.tape.scene import Scene
from whence.tape.scopes import weights_within

PATIENCE = 5.0


@dataclass(eq=False, slots=True, kw_only=True)
class Audit(Scene):
    """The input of the loop rules."""

    step: int
    final: bool
    """Whether the program has ended."""
    stack: tuple[Site, ...]
    loop: LoopLedger
    weights: WeightLedger
    memory: MemoryLedger
    units: UnitLedger
    batches: BatchLedger
    inputs: InputLedger
    labels: LabelLedger
    draws: DrawLedger
    changes: ChangeLedger
    rounds: RoundLedger
    schedules: ScheduleLedger
    built: Sequence[OptimizerEntry]
    """All optimizers, including freed ones, oldest first."""
    losses: Sequence[float]
    told: set[str]
    prepared: float
    """Seconds before the first step."""
    waiting: float | None = None
    """Seconds since the program last made progress."""
    threads: int = 0
    rank: tuple[int, int] | None = None
    """This rank of a distributed program, and the number of ranks."""

    def is_owned(self, weight: torch.Tensor) -> bool:
        """Whether an optimizer has, or ever had, a weight."""
        return any(id(weight) in entry.weights for entry in self.built)

    def steps_over(self, weight: torch.Tensor) -> int:
        """The number of steps of the optimizer that has a weight."""
        return max((entry.steps for entry in self.built if id(weight) in entry.weights), default=0)

    def was_loaded(self, entry: WeightEntry) -> bool:
        """Whether a module received a weight from a loaded state."""
        modules = [
            event.subject() for event in self.loop.of(Kind.LOAD) if event.subject is not None
        ]
        return any(
            entry.weight is each
            for module in modules
            if module is not None
            for each in weights_within(module)
        )

    def habits_of(self, entry: LoaderEntry) -> Habits | None:
        """How a loader's dataset produces samples: tried once, in a child process."""
        info = entry.info
        known = [epoch for epoch in entry.epochs if epoch.marks]
        if entry.habits is None and known and info.dataset is not None and _is_of_interest(info):
            entry.habits = Habits()
            with contextlib.suppress(NotPossible):
                indices = list(known[0].marks)
                entry.habits = run_in_child(
                    lambda: habits_of(info, indices), PATIENCE, need=Need.SAMPLES
                )
        return entry.habits

    def within_of(self, entry: LoaderEntry) -> Within | None:
        """The loader's windows that contain their own targets.

        For plain tensors the rows are read here, because no code of the program runs.
        """
        habits = self.habits_of(entry)
        if (
            habits is None
            and not entry.was_slid
            and type(innermost(entry.info.dataset)) is TensorDataset
        ):
            entry.was_slid, entry.within = True, target_within(entry.info.dataset)
        return entry.shown

    def parting_of(self, entry: LoaderEntry) -> Parting | None:
        """Whether the program's collate function keeps inputs and targets together.

        Tried once, in a child process.
        """
        info, indices = entry.info, entry.indices
        if not entry.was_paired and indices and _collates_itself(info) and info.dataset is not None:
            entry.was_paired = True
            with contextlib.suppress(NotPossible):
                entry.parting = run_in_child(
                    lambda: parting_of(info, indices), PATIENCE, need=Need.COLLATE
                )
        return entry.parting

    def ending_of(self, entry: LoaderEntry, ignored: list[int]) -> Ending | None:
        """Whether the end symbol of each sample, or one of the classes, is masked like padding.

        Tried once, in a child process.
        """
        info, indices = entry.info, entry.indices
        if not entry.was_ended and indices and _collates_itself(info) and info.dataset is not None:
            entry.was_ended = True
            with contextlib.suppress(NotPossible):
                return run_in_child(
                    lambda: (
                        masked_ending(info, indices, ignored)
                        or masked_class(info, indices, ignored)
                    ),
                    PATIENCE,
                    need=Need.COLLATE,
                )
        return None


def _collates_itself(info: LoaderInfo) -> bool:
    """Whether the program has its own collate function."""
    module = getattr(info.collate, "__module__", type(info.collate).__module__)
    return info.collate is not None and not module.startswith("torch.")


def _is_of_interest(info: LoaderInfo) -> bool:
    """Whether the program's own code takes part in making a sample."""
    kinds, dataset = [type(info.collate)], info.dataset
    while dataset is not None:
        kinds.append(type(dataset))
        dataset = getattr(dataset, "dataset", None)
    own = [each for each in kinds if not each.__module__.startswith(("torch.", "builtins"))]
    return bool(own) or not getattr(info.collate, "__module__", "torch.").startswith("torch.")
