"""Stand-ins for a child process: a listener that only records, a silent record and screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from whence.finding import Finding
from whence.record import Record, Writable
from whence.sensors.calls import CallSensor
from whence.tape.passes import PassBook
from whence.tape.tape import Call


class Aside:
    """The listener of a call sensor that only records, for example in a dataset."""

    phase = "data"

    def __init__(self, passes: PassBook, step: int) -> None:
        self.tape = passes.tape
        self.passes = passes
        self.step = step

    def current(self, _frame: FrameType | None) -> dict[str, Any]:
        return {"module": None, "step": self.step, "phase": self.phase}

    def call_began(self, call: Call, tensors: list[torch.Tensor]) -> None: ...
    def call_made(self, call: Call, result: Any) -> None: ...
    def call_failed(
        self, call: Call, func: Any, args: Any, kwargs: Any, exception: Exception
    ) -> None: ...
    def calls_missed(self) -> None: ...
    def interrupted(self) -> None: ...
    def sensor_failed(self, sensor: str, error: BaseException) -> None: ...


class AsStep(Aside):
    """The same for calls that will be replayed."""

    phase = "program"

    def call_began(self, call: Call, tensors: list[torch.Tensor]) -> None:
        if not call.inner:
            self.passes.note_operands(call, tensors)


@contextmanager
def recording(listener: Aside) -> Iterator[None]:
    """Record calls with a separate sensor."""
    sensor = CallSensor(listener)
    sensor.start()
    try:
        yield
    finally:
        sensor.stop()


class Unread(Record):
    """A record that is not written."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[Finding, Any] = {}
        """The repro of each finding that has one."""

    def keep_repro(self, repro: Writable) -> None:
        self.kept[self.report.findings[-1]] = repro


class Unseen:
    """A screen without output."""

    def hold(self, finding: Finding) -> None: ...
    def release(self) -> None: ...
