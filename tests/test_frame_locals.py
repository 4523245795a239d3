"""Reading a frame's variables neither changes nor keeps anything that the program can notice."""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any

import pytest

from whence.source.frame_locals import locals_of


class Thing:
    pass


def test_variables_are_those_of_now() -> None:
    first, second = 1, Thing()
    found = locals_of(sys._getframe())
    assert (found["first"], found["second"]) == (first, second)
    first = 2
    assert locals_of(sys._getframe())["first"] == first


def test_unbound_and_deleted_variables_are_left_out() -> None:
    gone = Thing()
    del gone
    found = locals_of(sys._getframe())
    assert "gone" not in found
    assert "found" not in found


def test_cells_are_read_through() -> None:
    outer = 5

    def inner() -> dict[str, Any]:
        nonlocal outer
        outer += 1
        return locals_of(sys._getframe())

    assert inner()["outer"] == 6
    assert locals_of(sys._getframe())["outer"] == 6


def test_a_dict_of_locals_that_the_program_holds_stays_as_it_was() -> None:
    rate = 0.1
    settings = locals()
    before = dict(settings)
    epochs = 3
    assert locals_of(sys._getframe())["epochs"] == epochs
    if sys.version_info >= (3, 13):
        assert settings == before
    else:
        assert {key: settings[key] for key in ("rate",)} == before == {"rate": rate}
        assert set(settings) == {"rate"}


def test_a_variable_dies_when_the_program_deletes_it() -> None:
    held = Thing()
    seen = weakref.ref(held)
    locals_of(sys._getframe())
    del held
    assert seen() is None


def test_a_module_frame_gives_its_names() -> None:
    space: dict[str, Any] = {"read": locals_of, "sys": sys}
    exec("x = 3\nfound = read(sys._getframe())", space)
    assert space["found"]["x"] == 3


def test_a_finished_frame_can_be_read() -> None:
    def fails() -> FrameType:
        value = 7
        with pytest.raises(ValueError) as caught:
            raise ValueError(value)
        return caught.tb.tb_frame

    assert locals_of(fails())["value"] == 7
