"""The ledger of inputs: what a model is given while it is trained, and what while it is evaluated."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from whence.data.summary import Summary
from whence.tape.tape import flatten

TRAINED = 6
EVALUATED = 3
ENOUGH_ROWS = 30
MOST_ELEMENTS = 2_000_000


@dataclass(eq=False, slots=True)
class Given:
    """The first inputs of one kind."""

    summary: Summary = field(default_factory=Summary)
    inputs: list[weakref.ref[torch.Tensor]] = field(default_factory=list)
    """Those of the last pass."""


class InputLedger:
    """Bounded: a few passes of each model are summed up."""

    def __init__(self) -> None:
        self._trained: weakref.WeakKeyDictionary[nn.Module, Given] = weakref.WeakKeyDictionary()
        self._evaluated: weakref.WeakKeyDictionary[nn.Module, dict[int, Given]] = weakref.WeakKeyDictionary()
        self.fresh: tuple[Given, Given] | None = None
        """Inputs in training and in evaluation that can be compared now."""

    def note(self, module: nn.Module, args: Iterable[Any], source: int) -> bool:
        """Take in the inputs of a pass; True if there is something new to compare. `source` tells loaders apart."""
        self.fresh = None
        is_trained = module.training and torch.is_grad_enabled()
        if is_trained:
            given, most = self._trained.setdefault(module, Given()), TRAINED
        elif not module.training and not torch.is_grad_enabled():
            if module not in self._trained:
                return False
            given, most = self._evaluated.setdefault(module, {}).setdefault(source, Given()), EVALUATED
        else:
            return False
        if given.summary.batches >= most:
            return False
        tensors = [each for each in flatten(tuple(args)) if _is_data(each)]
        if not tensors:
            return False
        given.inputs = [weakref.ref(each) for each in tensors]
        given.summary.add(tuple(each.detach() for each in tensors))
        if is_trained or self._trained[module].summary.batches < 3 or given.summary.rows < ENOUGH_ROWS:
            return False
        self.fresh = self._trained[module], given
        return True


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
