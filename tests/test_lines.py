"""Which line caused a change: functions that run under a line tracer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from whence.lineage.lines import Counts, LineWatch
from whence.lineage.properties import NotFinite
from whence.tape.tape import Tape

NAN = math.nan


def _parse() -> float:
    return NAN - 1


def mended_where_it_is() -> float:
    value = NAN - 1
    value = 0.0 if value != value else value
    return NAN * 2  # LASTING


def mended_by_who_called() -> float:
    value = _parse()
    value = 0.0 if value != value else value
    return NAN * 2  # LASTING


def carried_on() -> float:
    value = NAN - 1  # LASTING
    scaled = value / 2
    other = NAN * 2
    return scaled if other != other else value


def never_used_again() -> float:
    value = NAN - 1  # LASTING
    return 0.0 if value != value else value


@pytest.mark.parametrize(
    "function", [mended_where_it_is, mended_by_who_called, carried_on, never_used_again]
)
def test_what_is_mended_on_the_way_is_told_only_where_nothing_else_is_left(
    function: Callable[[], Any],
) -> None:
    watch = LineWatch(NotFinite(Tape()), Counts.LASTING)
    watch.during(function)
    found = watch.spot("")
    lines, first = inspect.getsourcelines(function)
    assert found is not None
    assert found[0].line == first + next(
        number for number, line in enumerate(lines) if "# LASTING" in line
    )


def test_without_that_the_first_one_counts() -> None:
    watch = LineWatch(NotFinite(Tape()))
    watch.during(mended_where_it_is)
    found = watch.spot("")
    assert found is not None
    assert found[0].line == inspect.getsourcelines(mended_where_it_is)[1] + 1


def test_what_lies_in_memory_by_chance_is_no_birth() -> None:
    full = numpy.full(4096, NAN)
    del full

    def fills() -> Any:
        out = numpy.empty(4096)
        out[:] = NAN * 2  # LASTING
        return out

    watch = LineWatch(NotFinite(Tape()), Counts.LASTING)
    watch.during(fills)
    found = watch.spot("")
    assert found is not None
    assert found[0].line == inspect.getsourcelines(fills)[1] + 2
    assert numpy.empty.__module__ == "numpy"
