"""Values that are read late: copied from a device without blocking, and checked after arrival.

A board is a small table on a device. Each pass of the program takes one of its rows: the losses are
copied into the row's cells, and flags are raised there if a value is not finite. At the end of the
pass the row is copied to the host and an event is recorded behind the copy. Nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import torch

from whence.devices import Event, event_on, has_events, host_memory, record_event
from whence.tape.finite import raise_flag

ROWS = 8
LOSSES: Final = 8
"""Losses read per pass."""
GRADIENTS: Final = LOSSES
STATISTICS: Final = LOSSES + 1
WEIGHTS: Final = LOSSES + 2
WIDTH: Final = LOSSES + 3


class Row:
    """One pass's cells on one device."""

    def __init__(self, board: Board, on_device: torch.Tensor, on_host: torch.Tensor) -> None:
        self.board = board
        self._row, self._host = on_device, on_host
        self._cells = list(on_device.unbind())
        self._event: Event = event_on(board.device)

    def put(self, place: int, value: torch.Tensor) -> None:
        """Copy a value with one element into a cell."""
        self._cells[place].copy_(value if value.dim() == 0 else value.reshape(()))

    def flag(self, place: int, tensors: list[torch.Tensor]) -> None:
        """Raise a cell's flag if a value in the tensors is not finite.

        A flag stays up until the row is cleared.
        """
        raise_flag(tensors, self._cells[place], self.board.one)

    def send(self) -> None:
        """Copy the row to the host at the end of the pass, behind all work queued for the pass."""
        self._host.copy_(self._row, non_blocking=self.board.is_asynchronous)
        record_event(self._event, self.board.device)

    def has_arrived(self) -> bool:
        return self._event.query()

    def wait(self) -> None:
        """Block until the row has arrived. Not used in steady state."""
        if not self._event.query():
            # Reading from the device waits for all work that was queued before.
            self._host.copy_(self._row)

    def values(self) -> list[float]:
        numbers: list[float] = self._host.tolist()
        return numbers

    def clear(self) -> None:
        self._row.zero_()


class Board:
    """The rows of one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.is_asynchronous = has_events(device)
        with torch.inference_mode(mode=False), torch.no_grad():
            cells = torch.zeros(ROWS, WIDTH, dtype=torch.float32, device=device)
            self.one = torch.ones((), dtype=torch.float32, device=device)
            host = host_memory(ROWS, WIDTH)
            self._free = [
                Row(self, *each) for each in zip(cells.unbind(), host.unbind(), strict=True)
            ]

    def take(self) -> Row | None:
        """Return a free row, or None if all are taken."""
        return self._free.pop() if self._free else None

    def give_back(self, row: Row) -> None:
        self._free.append(row)


class Boards:
    """One board for each device whose values are read late."""

    def __init__(self) -> None:
        self._boards: dict[torch.device, Board] = {}

    def of(self, device: torch.device) -> Board:
        board = self._boards.get(device)
        if board is None:
            board = self._boards[device] = Board(device)
        return board

    def forget(self) -> None:
        self._boards = {}


class Reading:
    """The rows that one pass has taken, at most one per device."""

    def __init__(self, boards: Boards) -> None:
        self._boards = boards
        self._rows: dict[torch.device, Row | None] = {}
        self._losses: list[tuple[torch.device, int]] = []
        """The cell of each loss."""

    def put_loss(self, loss: torch.Tensor) -> None:
        row = self._row(loss.device)
        if row is not None and len(self._losses) < LOSSES:
            place = len(self._losses)
            row.put(place, loss)
            self._losses.append((loss.device, place))

    def flag(self, place: int, tensors: Sequence[torch.Tensor]) -> None:
        for device, group in _by_device(tensors).items():
            row = self._row(device)
            if row is not None:
                row.flag(place, group)

    def _row(self, device: torch.device) -> Row | None:
        if device not in self._rows:
            self._rows[device] = self._boards.of(device).take()
        return self._rows[device]

    def _taken(self) -> Iterable[Row]:
        return (each for each in self._rows.values() if each is not None)

    def send(self) -> None:
        for row in self._taken():
            row.send()

    def has_arrived(self) -> bool:
        return all(each.has_arrived() for each in self._taken())

    def wait(self) -> None:
        for row in self._taken():
            row.wait()

    def losses(self) -> list[float]:
        """Return the losses. Like the flags below, they are valid only after arrival."""
        return [
            row.values()[place]
            for device, place in self._losses
            if (row := self._rows[device]) is not None
        ]

    def flags(self) -> tuple[bool, bool, bool]:
        """Return whether gradients, statistics and weights are not finite."""
        found = [False, False, False]
        for row in self._taken():
            for number, value in enumerate(row.values()[LOSSES:]):
                # A flag of NaN counts as raised.
                found[number] = found[number] or value != 0
        return found[0], found[1], found[2]

    def give_back(self) -> None:
        is_up = any(self.flags())
        for row in self._taken():
            if is_up:
                row.clear()
            row.board.give_back(row)
        self._rows = {}


def _by_device(tensors: Sequence[torch.Tensor]) -> dict[torch.device, list[torch.Tensor]]:
    found: dict[torch.device, list[torch.Tensor]] = {}
    for each in tensors:
        found.setdefault(each.device, []).append(each)
    return found
