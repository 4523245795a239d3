"""An iteration that is run again starts with the same values as the program's."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from whence.lineage.again import Turn, turn_of
from whence.source.sites import Site


def _turn(delivered: tuple[Any, ...] = ()) -> Turn:
    frame = sys._getframe(1)
    turn = turn_of(Site.of(frame), frame, delivered)
    assert turn is not None
    return turn


seen: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


def test_loop_variable_that_was_bound_anew_is_not_bound_twice() -> None:
    for number in (1.0, 2.0):
        number = number / 2
        seen.append(number)
        turn = _turn() if number == 1.0 else None
    assert turn is not None
    turn_run_stops_here(turn)
    assert turn.is_whole
    assert seen == [0.5, 1.0, 1.0]


def test_loop_variable_is_what_was_delivered() -> None:
    for place, (number, _) in enumerate([(4.0, "a"), (8.0, "b")]):
        number = number / 2
        seen.append((place, number))
        turn = _turn(((8.0, "b"),))
    turn_run_stops_here(turn)
    assert turn.is_whole
    assert seen == [(0, 2.0), (1, 4.0), (1, 4.0)]


def test_loop_variable_that_is_bound_anew_beside_others_is_not_known() -> None:
    for number in (1.0, 2.0):
        if number > 1:
            number, half = number / 2, True
            seen.append(half)
        turn = _turn()
    assert not turn.is_whole


def test_batch_that_was_fetched_is_not_fetched_again() -> None:
    numbers = iter(range(5))
    while True:
        number = next(numbers)
        seen.append(number * 2)
        turn = _turn()
        break
    turn_run_stops_here(turn)
    assert seen == [0, 0]
    assert next(numbers) == 1


def turn_run_stops_here(turn: Turn) -> None:
    """The last statement of these iterations makes them, and finds no such frame again."""
    global _turn
    made, _turn = _turn, lambda *_: turn
    try:
        turn.run()
    finally:
        _turn = made
