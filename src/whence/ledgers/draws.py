"""The ledger of draws: random numbers that a program draws anew in each step, and which are the same each time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from whence.ledgers.marks import mark_of
from whence.source.sites import Site
from whence.tape.tape import Call, Value, flatten

# Those that do not depend on anything that is learnt.
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
    """What one line draws."""

    stack: tuple[Site, ...]
    mark: float
    step: int
    value: Value
    times: int = 1
    """In how many steps, one after the other, it gave the same numbers."""
    inputs: set[float] = field(default_factory=set)
    """Of those that a model was given in these steps, with as many rows: a number that tells them apart."""


class DrawLedger:
    """Bounded: some lines, and one number for each."""

    def __init__(self) -> None:
        self._known: dict[tuple[Site, ...], Draw | None] = {}
        self._step = -1
        """The last in which something was drawn."""

    def note(self, call: Call) -> None:
        """A call of these has been made. Those of a model's own forward, and of an evaluation, are left alone."""
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
            # It moves on, as it should.
            self._known[call.stack] = None
        elif call.step > known.step:
            known.step, known.value, known.times = call.step, call.outputs[0], known.times + 1

    def given(self, args: Iterable[Any], step: int) -> None:
        """A model is given something: what was drawn for each of its rows goes with it."""
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
        """What is drawn for each sample, and is the same for other samples in the next step."""
        known = [each for each in self._known.values() if each is not None]
        return [each for each in known if each.times >= ENOUGH and len(each.inputs) >= ENOUGH]


def _mark(tensor: torch.Tensor | None) -> float | None:
    """Numbers that are all the same were not drawn."""
    mark = mark_of(tensor)
    flat = tensor.detach().reshape(-1) if tensor is not None and mark is not None else None
    return mark if flat is not None and not bool((flat == flat[0]).all()) else None
