"""The ledger of inputs: what a model receives in training and in evaluation."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from whence.data.summary import Summary
from whence.ledgers.allowance import Allows, always
from whence.source.spots import Spot
from whence.tape.scopes import has_modes, parts_of
from whence.tape.tape import flatten
from whence.weak_table import WeakTable

IN_TRAINING = (-1, True)
TRAINED = 6
EVALUATED = 3
MOST_SOURCES = 8
ENOUGH_ROWS = 30
SOME_ROWS = 16
MOST_HASHED = 20_000
MOST_ELEMENTS = 2_000_000


@dataclass(eq=False, slots=True)
class Given:
    """The first inputs of one kind."""

    summary: Summary = field(default_factory=Summary)
    inputs: list[weakref.ref[torch.Tensor]] = field(default_factory=list)
    """The inputs of the last pass."""
    rows: set[int] = field(default_factory=set)
    """Hashes of some of the first rows."""
    in_training_mode: bool = False
    """An evaluation without `eval()`: gradients are off, and no layer of the model has modes."""
    sized: dict[str, Spot | None] = field(default_factory=dict)
    """For inputs that are too large or too small, the line that scaled them."""

    def shares_rows(self, data: torch.Tensor) -> bool:
        """Whether some of the recorded rows are rows of these data."""
        return not self.rows.isdisjoint(_hashes(data, MOST_HASHED))


class InputLedger:
    """Inputs of models, bounded: a few passes of each model are summarized."""

    def __init__(self, allows: Allows = always) -> None:
        self._allows = allows
        self._known: WeakTable[nn.Module, dict[tuple[int, bool], Given | None]] = WeakTable()
        """For each model, its inputs in training, and in evaluation by source and mode.

        None where the inputs should not be compared.
        """
        self.fresh: tuple[Given, Given] | None = None
        """Inputs in training and in evaluation that can be compared now."""

    def trained(self) -> list[Given]:
        """The inputs of models in training."""
        found = [each.get(IN_TRAINING) for each in self._known.values()]
        return [each for each in found if each is not None]

    def note(self, module: nn.Module, args: Iterable[Any], source: int) -> bool:
        """Record the inputs of a pass; True if there is something new to compare.

        `source` identifies the loader.
        """
        self.fresh = None
        known = self._known.get(module, None)
        trains = torch.is_grad_enabled()
        if (trains and not module.training) or (known is None and not trains):
            return False
        if known is None:
            is_due = self._allows("models' inputs", id(module), len(self._known))
            known = self._known[module] = {IN_TRAINING: Given() if is_due else None}
        key = IN_TRAINING if trains else (source, module.training)
        if key not in known:
            if len(known) > MOST_SOURCES:
                return False
            # A network with modes is evaluated after `eval()`; one without modes may stay in
            # training mode.
            is_meant = not module.training or not any(map(has_modes, parts_of(module)))
            known[key] = Given(in_training_mode=module.training) if is_meant else None
        given, trained = known[key], known[IN_TRAINING]
        if (
            given is None
            or trained is None
            or given.summary.batches >= (TRAINED if trains else EVALUATED)
        ):
            return False
        tensors = [each for each in flatten(tuple(args)) if _is_data(each)]
        if not tensors:
            return False
        given.inputs = [weakref.ref(each) for each in tensors]
        given.summary.add(tuple(each.detach() for each in tensors))
        if trains and tensors[0].dim() == 2:
            given.rows |= _hashes(tensors[0], SOME_ROWS)
        if trains or trained.summary.batches < 3 or given.summary.rows < ENOUGH_ROWS:
            return False
        self.fresh = trained, given
        return True


def _hashes(data: torch.Tensor, most: int) -> set[int]:
    return {hash(tuple(row)) for row in data[:most].tolist()}


def _is_data(thing: Any) -> bool:
    return (
        isinstance(thing, torch.Tensor)
        and thing.is_floating_point()
        and thing.layout is torch.strided
        and thing.device.type == "cpu"
        and thing.dim() > 1
        and not thing.requires_grad
        and 0 < thing.numel() <= MOST_ELEMENTS
    )
