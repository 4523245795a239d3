"""Frames that PyTorch adds to a traceback because of a sensor, and the traces of hiding them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from whence.config import Config
from whence.finding import Outcome
from whence.record import Record
from whence.sensors.detours import DIRECT_CALL, hide_hand_over
from whence.watching.aside import Unseen
from whence.watching.session import Session


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session(Config(), Record(), Unseen())
    made.start()
    yield made
    made.close(Outcome())


def _refused() -> BaseException:
    with pytest.raises(ValueError, match="batch_size") as raised:
        F.cross_entropy(torch.rand(2, 3), torch.zeros(3, dtype=torch.long))
    return raised.value


def _functions(exception: BaseException) -> list[str]:
    return [each.name for each in traceback.extract_tb(exception.__traceback__)]


def test_hand_over_to_a_mode_is_not_in_the_traceback(session: Session) -> None:
    assert session.calls.on
    assert _functions(_refused()) == ["_refused", "cross_entropy"]
    assert sys.gettrace() is None


def test_call_of_a_module_is_on_the_line_without_hooks(session: Session) -> None:
    layer, x = nn.Linear(4, 3), torch.rand(2, 5)
    with pytest.raises(RuntimeError) as watched:
        layer(x)
    session.stop()
    with pytest.raises(RuntimeError) as plain:
        layer(x)
    lines = [
        [(each.name, each.lineno) for each in traceback.extract_tb(one.tb)[1:]]
        for one in (watched, plain)
    ]
    assert DIRECT_CALL is not None
    assert lines[0] == lines[1]


def test_tracer_of_the_program_stays(session: Session) -> None:
    seen = []

    def own(frame: FrameType, event: str, _arg: Any) -> None:
        seen.append(frame.f_code.co_name)

    sys.settrace(own)
    try:
        exception = _refused()
        assert sys.gettrace() is own
    finally:
        sys.settrace(None)
    assert "cross_entropy" in seen
    assert "handle_torch_function" in _functions(exception)


def _await_in_caller() -> bool:
    hide_hand_over(ValueError(), sys._getframe(1))
    return sys.gettrace() is not None


def test_exception_that_never_arrives_leaves_no_tracer() -> None:
    has_waited = _await_in_caller()
    assert has_waited
    assert sys.gettrace() is None
    assert sys._getframe().f_trace is None


def test_python_of_the_program_runs_without_the_tracer() -> None:
    hide_hand_over(ValueError(), sys._getframe(1))
    tracers = [sys.gettrace(), (lambda: sys.gettrace())()]
    assert tracers[0] is not None
    assert tracers[1] is None
