"""Sees optimizers step: the beat that steps are counted by."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from whence.sensors.sensor import Complaints, Sensor


class Listener(Complaints, Protocol):
    def step_began(self) -> None: ...
    def step_ended(self, steps: int) -> None: ...


class OptimizerSensor(Sensor):
    name = "optimizer"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self._counts: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()
        self.steps = 0

    def _attach(self) -> None:
        before = register_optimizer_step_pre_hook(self._before)
        after = register_optimizer_step_post_hook(self._after)
        self._undo += [before.remove, after.remove]

    def _before(self, _optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        self._guarded(self.listener.step_began)

    def _after(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        self._guarded(lambda: self._count(optimizer))

    def _count(self, optimizer: Optimizer) -> None:
        """A step is a step of the busiest optimizer: a GAN's two optimizers make one step together."""
        self._counts[optimizer] = self._counts.get(optimizer, 0) + 1
        self.steps = max(self.steps, self._counts[optimizer])
        self.listener.step_ended(self.steps)
