"""Rows identified by their values, and the code before training run again."""

from __future__ import annotations

import sys
from typing import Any

import torch

from whence.lineage.datasets.apart import pair_of_tables
from whence.lineage.datasets.belonging import Table, are_told, mixed, places_in
from whence.lineage.preparation import VariableWatch, prepare_again


def _table(*columns: torch.Tensor) -> Table:
    return Table([each.double() for each in columns])


def _drawn(number: int, size: int = 100) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(number))


LOAD, HEAT = _drawn(1), _drawn(2)
ORDER = torch.randperm(100, generator=torch.Generator().manual_seed(3))
WHOLE = _table(LOAD, HEAT)


def test_inputs_that_moved_alone_have_other_labels() -> None:
    found = mixed(_table(LOAD[ORDER]), _table(HEAT), [WHOLE])
    assert found is not None
    assert (found.row, found.other, found.size) == (0, int(ORDER[0]), 100)


def test_inputs_and_labels_that_moved_together_are_in_order() -> None:
    assert mixed(_table(LOAD[ORDER]), _table(HEAT[ORDER]), [WHOLE]) is None


def test_what_is_told_of_a_later_row_is_no_mistake() -> None:
    kept = torch.arange(99) % 10 != 9
    assert mixed(_table(LOAD[:-1][kept]), _table(HEAT[1:][kept]), [WHOLE]) is None


def test_a_part_that_was_scaled_is_found_with_the_rest_of_it() -> None:
    scaled = (LOAD[ORDER] - LOAD.mean()) / LOAD.std()
    assert mixed(_table(scaled[:60]), _table(HEAT[:60]), [WHOLE, _table(scaled)]) is not None


def test_numbers_that_only_count_tell_no_rows_apart() -> None:
    counted = torch.arange(100.0)
    assert places_in(_table(counted[ORDER]), _table(counted)) is None


def test_a_line_that_binds_its_own_argument_anew_is_run_again_from_the_beginning() -> None:
    seen: list[Any] = []

    def program() -> None:
        price = 2.5
        price = int(price)
        assert price == 2
        prepare_again(
            [sys._getframe()],
            VariableWatch(lambda _file, _line, name, thing: seen.append((name, thing))),
        )

    program()
    assert [thing for name, thing in seen if name == "price"] == [2.5, 2]


def test_labels_that_are_all_alike_are_anybodys() -> None:
    table = pair_of_tables(torch.randn(40, 3), torch.ones(40))
    assert table is not None
    assert are_told(*table)
