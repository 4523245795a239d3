"""The program's code, run a second time in a child process, can read but change nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from forking import whence_run

from whence.rerun.child import run_in_child
from whence.rerun.permission import Need


def _refuses(act: Callable[[], object]) -> bool:
    def ask() -> bool:
        try:
            act()
        except PermissionError:
            return True
        return False

    return run_in_child(ask, need=Need.SAMPLES)


def test_a_child_reads_and_does_not_write(tmp_path: Path) -> None:
    there = tmp_path / "there.txt"
    there.write_text("as it was")
    assert run_in_child(there.read_text, need=Need.SAMPLES) == "as it was"
    for act in (
        lambda: there.write_text("changed"),
        lambda: there.open("a"),
        lambda: os.open(there, os.O_RDWR),
        lambda: (tmp_path / "new").touch(),
        lambda: (tmp_path / "folder").mkdir(),
        there.unlink,
        lambda: there.rename(tmp_path / "other"),
        lambda: subprocess.run([sys.executable, "-c", ""], check=False),
    ):
        assert _refuses(act)
    assert [each.name for each in tmp_path.iterdir()] == ["there.txt"]
    assert there.read_text() == "as it was"


def test_a_child_has_shared_memory_to_itself(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "data.bin", np.float32, "w+", shape=(3, 1000))
    mapped[:] = 1
    shared = torch.ones(5000).share_memory_()

    def write() -> tuple[float, float]:
        mapped[1] *= 2
        shared.mul_(3)
        mapped.flush()
        return float(mapped.sum()), float(shared.sum())

    assert run_in_child(write, need=Need.SAMPLES) == (4000, 15000)
    assert (mapped.sum(), shared.sum()) == (3000, 5000)
    assert np.fromfile(tmp_path / "data.bin", np.float32).sum() == 3000


def test_a_child_that_asks_again_makes_no_further_one() -> None:
    child = run_in_child(
        lambda: (os.getpid(), run_in_child(os.getpid, need=Need.SAMPLES)), need=Need.SAMPLES
    )
    assert child[0] == child[1] != os.getpid()


PREPARED = """
import numpy as np, pathlib, torch
from torch import nn

def prepared(table):
    pathlib.Path("calls.txt").open("a").write("x")
    share = table / table.sum(0)
    logged = np.log(share)  # ORIGIN
    return logged.astype(np.float32)

table = np.random.default_rng(0).integers(1, 9, (64, 4)).astype(float)
table[40, 2] = 0
inputs = torch.from_numpy(prepared(table))
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for rows in torch.arange(64).split(16):
    loss = net(inputs[rows]).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


def test_a_function_that_writes_is_not_let_write_again(tmp_path: Path) -> None:
    """It is then reported as far as its source can be read."""
    (tmp_path / "program.py").write_text(PREPARED)
    ran = whence_run(tmp_path / "program.py", cwd=tmp_path)
    (found,) = [each for each in ran.loud if each["rule"] == "data/nonfinite"]
    assert (tmp_path / "calls.txt").read_text() == "x"
    assert found["origin"]["function"] == "prepared"


def test_a_function_that_only_computes_is_made_again_line_by_line(tmp_path: Path) -> None:
    source = PREPARED.replace('    pathlib.Path("calls.txt").open("a").write("x")\n', "")
    (tmp_path / "program.py").write_text(source)
    ran = whence_run(tmp_path / "program.py", cwd=tmp_path)
    (found,) = [each for each in ran.loud if each["rule"] == "data/nonfinite"]
    assert "# ORIGIN" in source.splitlines()[found["origin"]["line"] - 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_the_parent_is_not_bound_by_it(tmp_path: Path) -> None:
    run_in_child(os.getpid, need=Need.SAMPLES)
    (tmp_path / "new").write_text("written")
    assert (tmp_path / "new").read_text() == "written"
