"""The ledger of weights: which take part in a loss, which get a gradient, which change."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from whence.tape.readable import is_readable
from whence.tape.tape import Call

MOST_ELEMENTS = 256
MOST_KEPT = 64 * 2**20
"""Bytes of weights kept until the end, for inspection after the program frees them."""


@dataclass(eq=False, slots=True)
class WeightEntry:
    ref: weakref.ref[torch.Tensor]
    first: torch.Tensor
    """Its first elements when it was first recorded."""
    kept: torch.Tensor | None = None
    name: str = ""
    passes: int = 0
    """Recorded passes in which it took part."""
    open: int = 0
    """Passes with gradients enabled: a policy also runs without them, for targets."""
    reached: int = 0
    """Passes with gradients enabled in which its gradient was nonzero."""
    is_open: bool = False
    gradients: int = 0
    """Passes in which backward gave it a nonzero gradient."""
    step: int = -1
    """The last step in which it took part."""
    has_gradient: bool = False
    """Whether it got a nonzero gradient in that step."""
    call: Call | None = None
    """The first call that used it."""
    training: bool = True
    """Whether the module that used it was in training mode."""

    @property
    def weight(self) -> torch.Tensor | None:
        return self.ref()

    def has_changed(self) -> bool:
        weight = self.ref()
        return weight is not None and not torch.equal(_head(weight), self.first)

    def moved(self) -> float:
        """The distance from its first value, relative to its size."""
        weight = self.ref()
        if weight is None or not weight.is_floating_point() or not self.first.numel():
            return 0.0
        size = float(self.first.double().norm())
        return (
            float((_head(weight).double() - self.first.double()).norm()) / size
            if size
            else float("inf")
        )


class WeightLedger:
    """Filled from recorded passes; weights beyond `MOST_KEPT` bytes are not kept alive."""

    def __init__(self) -> None:
        self._entries: dict[int, WeightEntry] = {}
        self._bytes = 0

    def entries(self) -> list[WeightEntry]:
        return [each for each in self._entries.values() if each.weight is not None]

    def entry_of(self, weight: torch.Tensor) -> WeightEntry | None:
        entry = self._entries.get(id(weight))
        return entry if entry is not None and entry.weight is weight else None

    def know(self, weight: torch.Tensor) -> WeightEntry:
        entry = self.entry_of(weight)
        if entry is None:
            entry = self._entries[id(weight)] = WeightEntry(weakref.ref(weight), _head(weight))
            self._bytes += weight.numel() * weight.element_size()
            if self._bytes < MOST_KEPT:
                entry.kept = weight
        return entry

    def forget(self) -> None:
        self._entries = {}

    def enter(
        self,
        used: Iterable[tuple[torch.Tensor, Call, bool]],
        step: int,
        gradient_of: Callable[[torch.Tensor], torch.Tensor | None],
    ) -> None:
        """Record the weights of a pass after its backward, each with a call that used it.

        Several passes in one step count once.
        """
        for weight, call, training in used:
            entry = self.know(weight)
            if entry.call is None:
                entry.call, entry.training = call, training
            if entry.step != step:
                entry.step, entry.has_gradient, entry.is_open = step, False, False
                entry.passes += 1
            opened = call.grad_mode and not entry.is_open
            if entry.has_gradient and not opened:
                continue
            learns = is_not_zero(gradient_of(weight))
            if opened:
                entry.is_open = True
                entry.open += 1
                entry.reached += learns
            if learns and not entry.has_gradient:
                entry.has_gradient = True
                entry.gradients += 1


def has_gradient(weight: torch.Tensor) -> bool:
    """Whether a weight has a nonzero gradient."""
    return is_not_zero(weight.grad)


def is_not_zero(gradient: torch.Tensor | None) -> bool:
    if gradient is not None and not is_readable(gradient):
        return True
    if gradient is not None and gradient.is_sparse:
        gradient = gradient._values()
    return gradient is not None and bool(gradient.count_nonzero())


def _head(weight: torch.Tensor) -> torch.Tensor:
    if not is_readable(weight):
        return torch.empty(0)
    return weight.detach().reshape(-1)[:MOST_ELEMENTS].clone()
