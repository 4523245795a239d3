"""Without numpy Whence adds no warning to the program's, and its own commands show none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

NO_NUMPY = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec


def find_others(name, path=None, target=None):
    return None if name.partition(".")[0] == "numpy" else find(name, path, target)


PathFinder.find_spec = find_others
"""

TRAINS = """
import torch
from torch import nn
from torch.utils.data import DataLoader

try:
    import numpy
except ModuleNotFoundError:
    print("no numpy")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters())
for x in DataLoader(torch.rand(64, 3), batch_size=8, shuffle=True):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


def _python(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "sitecustomize.py").write_text(NO_NUMPY)
    (tmp_path / "train.py").write_text(TRAINS)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )


def test_a_run_warns_as_the_program_does_alone(tmp_path: Path) -> None:
    plain = _python(tmp_path, "train.py")
    watched = _python(tmp_path, "-m", "whence", "run", "train.py")
    assert plain.stdout.startswith("no numpy\n")
    assert (
        (watched.stdout, watched.returncode)
        == (plain.stdout, plain.returncode)
        == (plain.stdout, 0)
    )
    said = watched.stderr.removeprefix(plain.stderr)
    assert said != watched.stderr or not plain.stderr
    assert said.count("\n") == 1, said
    assert said.startswith("whence 8 steps watched, nothing found"), said


def test_the_demo_shows_its_finding_and_no_warning(tmp_path: Path) -> None:
    ran = _python(tmp_path, "-m", "whence", "demo")
    assert "Warning" not in ran.stderr, ran.stderr
    assert "shape/linear-features" in ran.stderr
