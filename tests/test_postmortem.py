"""A failing call is read from its traceback and reported once."""

from __future__ import annotations

from pathlib import Path

import torch
from forking import whence_run

from whence.lineage.postmortem import examine

ON_THE_WAY_OUT = """
import torch
from torch import nn

class Ring(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("queue", torch.zeros(8, 4))
        self.place = 0

    @torch.no_grad()
    def keep(self, rows):
        self.queue[self.place : self.place + len(rows)] = rows
        self.place = (self.place + len(rows)) % 8

    def forward(self, x):
        y = self.layer(x)
        self.keep(y)
        return y.sum()

ring = Ring()
optimizer = torch.optim.SGD(ring.parameters(), lr=0.01)
for rows in (5, 3, 5, 5):
    optimizer.zero_grad()
    ring(torch.randn(rows, 4)).backward()
    optimizer.step()
"""


def test_what_a_with_does_on_the_way_out_is_not_the_program_getting_on(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(ON_THE_WAY_OUT)
    ran = whence_run(tmp_path / "program.py", cwd=tmp_path)
    (found,) = ran.loud
    assert found["rule"] == "shape/mismatch"
    assert "self.queue[self.place" in found["origin"]["code"]


def test_an_assignment_to_a_part_is_read_as_one() -> None:
    queue, rows, start = torch.zeros(8, 4), torch.zeros(5, 4), 5
    try:
        queue[start : start + 5] = rows
    except RuntimeError as error:
        remains = examine(error.__traceback__)
    assert remains.func is torch.Tensor.__setitem__
    assert remains.args[0] is queue
    assert remains.args[1] == slice(5, 10, None)
    assert remains.args[2] is rows


def test_what_cannot_be_known_is_not_made_up() -> None:
    table = torch.zeros(4)
    try:
        table[(lambda: 9)()]
    except IndexError as error:
        remains = examine(error.__traceback__)
    assert remains.func is None


def test_operands_under_names_that_are_put_together_are_known() -> None:
    weights = {"w0": torch.ones(3, 2, dtype=torch.float64)}
    number, x = 0, torch.ones(4, 3)
    try:
        torch.mm(x, weights[f"w{number}"])
    except RuntimeError as error:
        remains = examine(error.__traceback__)
    assert remains.is_whole
    assert remains.args[1] is weights["w0"]


def test_an_argument_that_cannot_be_told_is_said_to_be_unknown() -> None:
    x = torch.ones(4, 3)
    try:
        torch.mm(x, x.double().t())
    except RuntimeError as error:
        remains = examine(error.__traceback__)
    assert remains.func is torch.mm
    assert not remains.is_whole
    assert remains.known() == ((x, None), {})
