"""A table of weakly held objects that runs no Python when an object is freed."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from whence.weak_table import WeakTable, removing_ref


class Thing:
    """An object that cannot be hashed or compared, as programs may have."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")


@pytest.fixture
def calls() -> Iterator[list[str]]:
    """Python functions that were called while the profiler was on."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call":
            found.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    yield found
    sys.setprofile(before)


def test_entry_goes_with_its_thing() -> None:
    table: WeakTable[Thing, str] = WeakTable()
    one, other = Thing(), Thing()
    table[one], table[other] = "one", "other"
    del one
    assert (len(table), table.things(), table.values()) == (1, [other], ["other"])


def test_no_python_runs_when_a_thing_dies(calls: list[str]) -> None:
    table: WeakTable[Thing, list[int]] = WeakTable()
    things = [Thing() for _ in range(3)]
    for each in things:
        table[each] = [1]
    calls.clear()
    del each
    things.clear()
    assert calls == []
    assert table.values() == []


def test_no_python_runs_when_a_cycle_is_collected(calls: list[str]) -> None:
    table: WeakTable[Thing, None] = WeakTable()
    thing: Any = Thing()
    thing.itself = thing
    table[thing] = None
    calls.clear()
    del thing
    gc.collect()
    assert not [each for each in calls if not each.startswith("test_")]
    assert len(table) == 0


def test_thing_with_the_identity_of_a_dead_one_is_unknown() -> None:
    table: WeakTable[Thing, str] = WeakTable()
    thing = Thing()
    table[thing] = "first"
    kept = dict(table._entries)
    del thing
    # As if the entry had outlived its object, and another object had the same address.
    newcomer = Thing()
    table._entries[id(newcomer)] = next(iter(kept.values()))
    assert newcomer not in table
    assert table.get(newcomer, None) is None
    assert table.things() == []
    with pytest.raises(KeyError):
        table[newcomer]
    table.pop(newcomer)
    assert table.setdefault(newcomer, "second") == "second"
    assert table.setdefault(newcomer, "third") == "second"


def test_value_can_be_replaced_and_forgotten() -> None:
    table: WeakTable[Thing, int] = WeakTable()
    thing = Thing()
    table[thing] = 1
    table[thing] = 2
    assert (table[thing], len(table)) == (2, 1)
    table.pop(thing)
    table.pop(thing)
    assert thing not in table
    table[thing] = 3
    del thing
    assert len(table) == 0


def test_table_that_is_cleared_forgets_things_that_live_on() -> None:
    table: WeakTable[Thing, int] = WeakTable()
    thing = Thing()
    table[thing] = 1
    table.clear()
    assert thing not in table
    table[thing] = 2
    assert table.values() == [2]


def test_reference_removes_an_entry_of_a_plain_dict() -> None:
    thing, other = Thing(), Thing()
    table: dict[int, Any] = {id(other): "other"}
    table[id(thing)] = removing_ref(thing, table)
    del thing
    assert table == {id(other): "other"}
