"""The books as they stand after some steps, or at the end: for mistakes that no single step shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from whence.ledgers.loop import Kind, LoopLedger, OptimizerEntry
from whence.ledgers.memory import MemoryLedger
from whence.ledgers.units import UnitLedger
from whence.ledgers.weights import WeightEntry, WeightLedger
from whence.source.sites import Site
from whence.tape.scene import Scene


@dataclass(eq=False, slots=True, kw_only=True)
class Audit(Scene):
    """Handed to the rules of the loop."""

    step: int
    final: bool
    """The program is over."""
    stack: tuple[Site, ...]
    loop: LoopLedger
    weights: WeightLedger
    memory: MemoryLedger
    units: UnitLedger
    built: Sequence[OptimizerEntry]
    """All optimizers, those that are gone included, oldest first."""
    losses: Sequence[float]
    told: set[str]

    def is_owned(self, weight: torch.Tensor) -> bool:
        """Whether an optimizer has, or ever had, a weight."""
        return any(id(weight) in entry.weights for entry in self.built)

    def was_loaded(self, entry: WeightEntry) -> bool:
        """Whether a module got a weight from a state that was loaded."""
        modules = [event.subject() for event in self.loop.of(Kind.LOAD) if event.subject is not None]
        return any(entry.weight is each for module in modules if module is not None for each in module.parameters())
