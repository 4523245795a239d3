"""A torch without some private names loses capabilities, which the report names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from whence import torch_internals
from whence.ledgers.memory import graph_size
from whence.lineage.graph import nodes_of

TRAINS = """
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.1), nn.Linear(3, 1))
optimizer = torch.optim.Adam(model.parameters())
data = torch.rand(32, 3)
data[20] = -1.0
for x in DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    loss = (model(x).mean() - torch.log(x.sum(1))).mean()
    loss.backward()
    optimizer.step()
print("done")
"""

WITHOUT = """
import sys, types
import torch
from pathlib import Path

path, lacking, script, document = sys.argv[1:]
text = Path(path).read_text()
head = "def _resolve(path: str) -> Any:\\n"
assert head in text
refusal = f"    if path.startswith({lacking!r}):\\n        raise AttributeError(path)\\n"
module = types.ModuleType("whence.torch_internals")
sys.modules["whence.torch_internals"] = module
exec(compile(text.replace(head, head + refusal), path, "exec"), vars(module))

from whence.cli import main
raise SystemExit(main(["run", "--json", document, script]))
"""


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        ("torch._C", {"torch.func transforms", "torch calls", "weight updates during backward"}),
        ("torch.utils.data", {"data loaders", "samples of data loader workers"}),
        ("torch.utils._pytree", {"tensors in nested containers"}),
        ("torch._functorch", {"torch.func transforms", "the origin of a NaN within torch.vmap"}),
        ("torch.nn", set()),
        ("torch._amp", set()),
        (
            "torch",
            {"torch calls", "data loaders", "autograd's graph", "tensors in nested containers"},
        ),
    ],
)
def test_a_torch_without_private_names_is_still_watched(
    tmp_path: Path, lacking: str, named: set[str]
) -> None:
    script, document = tmp_path / "train.py", tmp_path / "findings.json"
    script.write_text(TRAINS)
    words = [torch_internals.__file__, lacking, str(script), str(document)]
    command = [sys.executable, "-c", WITHOUT, *words]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.stdout == "done\n", ran.stderr
    report = json.loads(document.read_text())
    assert report["steps"] == 4
    missing = {each.partition(":")[0] for each in report["not_watched"]}
    assert named <= missing
    assert bool(named) == bool(missing), report["not_watched"]
    assert [each["rule"] for each in report["findings"]]


def test_a_graph_is_walked_to_its_end() -> None:
    """If torch makes a new object for each access to a node, the id of a freed one is reused."""
    total = torch.zeros((), requires_grad=True)
    for _ in range(50):
        total = total.exp() + total.sin() * 2
    # exp, sin, mul, add, and the leaf at the end
    assert graph_size(total)[0] == len(list(nodes_of(total))) == 50 * 4 + 1


def test_nothing_is_missing_in_this_torch() -> None:
    assert torch_internals.missing_capabilities() == []
