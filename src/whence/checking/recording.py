"""Record the torch calls of one pass on a copy on a tape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from whence.sensors.calls import CallSensor
from whence.tape.tape import Call, CustomFunction, Tape

LOSSES = frozenset(
    {
        "cross_entropy",
        "nll_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "mse_loss",
    }
)


@dataclass(eq=False, slots=True)
class Recording:
    """Listen to a call sensor. Operands are kept for the few calls inspected afterwards."""

    tape: Tape = field(default_factory=Tape)
    customs: list[tuple[Call, list[torch.Tensor]]] = field(default_factory=list)
    losses: list[tuple[Call, list[torch.Tensor]]] = field(default_factory=list)
    trouble: str = ""

    @property
    def calls(self) -> list[Call]:
        return [each for each in self.tape.calls if not each.inner]

    def current(self, _frame: FrameType | None) -> dict[str, Any]:
        return {"module": None, "step": 0, "phase": "forward"}

    def call_began(self, call: Call, tensors: list[torch.Tensor]) -> None:
        if isinstance(call.func, CustomFunction):
            self.customs.append((call, [each.detach().clone() for each in tensors]))
        elif call.name in LOSSES and not call.inner:
            self.losses.append((call, [each.detach() for each in tensors]))

    def call_made(self, call: Call, result: Any) -> None: ...

    def call_failed(
        self, call: Call, func: Any, args: Any, kwargs: Any, exception: Exception
    ) -> None: ...

    def calls_missed(self) -> None: ...
    def interrupted(self) -> None: ...
    def sensor_failed(self, sensor: str, error: BaseException) -> None:
        self.trouble = f"the {sensor} sensor failed ({type(error).__name__}: {error})"


@contextmanager
def recording() -> Iterator[Recording]:
    made = Recording()
    sensor = CallSensor(made)
    sensor.start()
    try:
        yield made
    finally:
        sensor.stop()
