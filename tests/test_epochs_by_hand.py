"""Facts kept about a hand-written loop's batches: in-place changes, and random draws."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import torch

from whence.ledgers.changes import ChangeLedger
from whence.ledgers.draws import DrawLedger
from whence.lineage.loops.iterators import draws_on
from whence.source.sites import Site
from whence.tape.tape import Tape


def _changed(ledger: ChangeLedger, tape: Tape, site: Site, batch: torch.Tensor) -> None:
    """A batch loses its smallest element before the model receives it."""
    args = batch, batch == batch.min(), 100
    tensors: list[torch.Tensor] = []
    call = tape.begin(
        torch.Tensor.__setitem__,
        args,
        {},
        stack=(site,),
        module=None,
        step=0,
        phase="program",
        tensors=tensors,
    )
    ledger.begins(call, tensors)
    batch[args[1]] = 100
    tape.finish(call, None, [batch])
    ledger.made(call)
    ledger.given((batch,))


def _site() -> Site:
    return Site.of(sys._getframe(1))


def test_batches_that_are_found_as_they_were_left_are_seen() -> None:
    ledger, tape, site, data = ChangeLedger(), Tape(), _site(), torch.arange(64)
    for _ in range(2):
        assert ledger.left_behind() is None
        for batch in data.split(16):
            _changed(ledger, tape, site, batch)
    assert ledger.left_behind() == (site, 4)


def test_batches_that_are_filled_again_are_not_left_behind() -> None:
    ledger, tape, site, data = ChangeLedger(), Tape(), _site(), torch.arange(64)
    buffer = torch.empty(64, dtype=torch.int64)
    for _ in range(3):
        buffer.copy_(data)
        for batch in buffer.split(16):
            _changed(ledger, tape, site, batch)
    assert ledger.left_behind() is None


def test_one_piece_of_memory_is_no_data() -> None:
    ledger, tape, site, state = ChangeLedger(), Tape(), _site(), torch.arange(16)
    for _ in range(6):
        _changed(ledger, tape, site, state)
    assert ledger.left_behind() is None


def _drawn(
    ledger: DrawLedger,
    tape: Tape,
    site: Site,
    step: int,
    numbers: torch.Tensor,
    given: torch.Tensor,
) -> None:
    call = tape.begin(torch.rand, (), {}, stack=(site,), module=None, step=step, phase="program")
    tape.finish(call, numbers, [])
    ledger.note(call)
    ledger.given((given,), step)


def test_numbers_that_are_drawn_again_for_other_samples_are_seen() -> None:
    ledger, tape, site = DrawLedger(), Tape(), _site()
    for step in range(5):
        assert not ledger.repeated()
        _drawn(ledger, tape, site, step, torch.arange(16.0), torch.randn(16, 3))
    assert [each.times for each in ledger.repeated()] == [5]


def test_numbers_for_the_same_samples_or_for_none_in_particular_may_be_the_same() -> None:
    same, few, tape, site = DrawLedger(), DrawLedger(), Tape(), _site()
    samples = torch.randn(16, 3)
    for step in range(8):
        _drawn(same, tape, site, step, torch.arange(16.0), samples)
        _drawn(few, tape, site, step, torch.arange(9.0), torch.randn(16, 3))
    assert not same.repeated()
    assert not few.repeated()


def test_numbers_that_differ_once_move_on() -> None:
    ledger, tape, site = DrawLedger(), Tape(), _site()
    for step in range(12):
        _drawn(ledger, tape, site, step, torch.arange(16.0) + (step == 2), torch.randn(16, 3))
    assert not ledger.repeated()


def test_what_an_iterator_draws_on_is_found_through_others() -> None:
    lines, other = iter(["1", "2"]), iter(["3"])

    def parsed(source: Iterator[str]) -> Iterator[int]:
        for each in source:
            yield int(each)

    assert draws_on(zip(map(str, parsed(lines)), range(3), strict=False), lines)
    assert not draws_on(zip(map(str, parsed(lines)), range(3), strict=False), other)
