"""The ledger of draws: random tensors that are drawn in each step and are the same each time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from whence.ledgers.marks import mark_of
from whence.source.sites import Site
from whence.tape.tape import Call, Value, flatten

# Calls that do not depend on anything learned.
DRAWS = frozenset(
    {
        "rand",
        "randn",
        "randint",
        "randperm",
        "rand_like",
        "randn_like",
        "randint_like",
        "normal",
        "normal_",
        "uniform_",
    }
)
MOST_SITES = 64
ENOUGH = 5


@dataclass(eq=False, slots=True)
class Draw:
    """The random tensor that one line draws."""

    stack: tuple[Site, ...]
    mark: float
    step: int
    value: Value
    times: int = 1
    """The number of consecutive steps with the same values."""
    inputs: set[float] = field(default_factory=set)
    """Fingerprints of the model inputs of these steps with the same number of rows."""


class DrawLedger:
    """Drawing lines, bounded: one fingerprint for each."""

    def __init__(self) -> None:
        self._known: dict[tuple[Site, ...], Draw | None] = {}
        self._step = -1
        """The last step in which something was drawn."""

    def note(self, call: Call) -> None:
        """Record a draw, except in a model's own forward and in evaluation."""
        if call.phase != "program" or not call.grad_mode or call.inner or not call.outputs:
            return
        self._step = call.step
        known = self._known.get(call.stack)
        if known is None and (call.stack in self._known or len(self._known) >= MOST_SITES):
            return
        mark = _mark(call.outputs[0].tensor)
        if known is None:
            self._known[call.stack] = (
                Draw(call.stack, mark, call.step, call.outputs[0]) if mark is not None else None
            )
        elif mark != known.mark or call.step > known.step + 1:
            # The values change from step to step, as they should.
            self._known[call.stack] = None
        elif call.step > known.step:
            known.step, known.value, known.times = call.step, call.outputs[0], known.times + 1

    def given(self, args: Iterable[Any], step: int) -> None:
        """Associate the draws of this step with the rows of the model's input."""
        if step != self._step:
            return
        drawn = [each for each in self._known.values() if each is not None and each.step == step]
        first = (
            next((each for each in flatten(tuple(args)) if isinstance(each, torch.Tensor)), None)
            if drawn
            else None
        )
        mark = _mark(first)
        for each in drawn:
            if first is not None and mark is not None and each.value.shape[:1] == first.shape[:1]:
                each.inputs.add(mark)

    def repeated(self) -> list[Draw]:
        """Draws for each sample that are the same for other samples in the next step."""
        known = [each for each in self._known.values() if each is not None]
        return [each for each in known if each.times >= ENOUGH and len(each.inputs) >= ENOUGH]


def _mark(tensor: torch.Tensor | None) -> float | None:
    """The fingerprint of a tensor; None if all values are equal, since those were not drawn."""
    mark = mark_of(tensor)
    flat = tensor.detach().reshape(-1) if tensor is not None and mark is not None else None
    return mark if flat is not None and not bool((flat == flat[0]).all()) else None
