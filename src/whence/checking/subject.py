"""The subject of the checks, and fresh copies of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from whence.checking.axes import Layout
from whence.checking.calling import ModelCall, Pass, Way
from whence.checking.clones import Clone, clone
from whence.checking.structure import copied, real_tensors, tensors_in
from whence.checking.untouched import seed


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of `whence.check`. Checks read these and run only copies."""

    model: nn.Module
    batch: Any
    loss_fn: Any
    optimizer: Any = None
    dataset_size: int | None = None
    batch_size: int | None = None
    planned_steps: int | None = None
    scheduler: Any = None
    causal: bool | None = None


@dataclass(slots=True)
class Subject:
    given: Given
    source: Clone
    """Source of further copies instead of the originals: its lazy modules are initialised."""
    way: Way
    layout: Layout | None
    raised: Exception | None = None
    """The exception of the first pass, if any; checks that need a pass are skipped then."""
    first: list[Pass] = field(default_factory=list)

    def fresh(self, batch: Any = None) -> Clone:
        """Copy everything in training mode. Submodules in eval mode stay so."""
        made = clone(
            self.source.model, self.source.loss_fn, self.source.batch if batch is None else batch
        )
        if not made.model.training:
            made.model.train()
        return made

    def run(self, made: Clone, number: int = 0) -> Pass:
        """Run one pass; the same seed gives the same random numbers."""
        seed(number)
        return self.way.run(made)

    def call(self) -> ModelCall | None:
        """Return the first call that the loss makes of the model itself."""
        if not self.first:
            self.first.append(self.run(self.fresh()))
        calls = self.first[0].calls
        return calls[0] if calls else None

    def has_data(self) -> bool:
        """Whether some floating-point input (or any other, if there is none) is not constant."""
        call = self.call()
        inputs = (
            [each.detach() for _, each in tensors_in((call.args, call.kwargs))]
            if call is not None
            else []
        )
        inputs = [each for each in inputs if each.is_floating_point()] or inputs
        return not inputs or any(
            each.numel() < 2 or bool((each != each.flatten()[0]).any()) for each in inputs
        )


def forward(model: nn.Module, args: Any, kwargs: Any, number: int = 0) -> list[torch.Tensor]:
    """Run the model on copies of the arguments; return its floating-point outputs."""
    seed(number)
    args, kwargs = copied(args), copied(kwargs)
    return [each.detach() for each in real_tensors(model(*args, **kwargs))]


def largest_difference(some: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> float:
    """Largest difference between outputs, relative to their size; infinite if shapes differ."""
    if len(some) != len(others):
        return float("inf")
    worst = 0.0
    for one, other in zip(some, others, strict=True):
        if one.shape != other.shape:
            return float("inf")
        worst = max(worst, relative(one, other))
    return worst


def relative(one: torch.Tensor, other: torch.Tensor) -> float:
    if not one.numel():
        return 0.0
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    wide, against = one.double(), other.double()
    same = (wide == against) | (wide.isnan() & against.isnan())
    if bool(same.all()):
        return 0.0
    finite = wide[torch.isfinite(wide)]
    scale = float(finite.abs().max()) if finite.numel() else 1.0
    return float((wide - against)[~same].abs().nan_to_num(nan=float("inf")).max()) / max(
        scale, 1e-12
    )
