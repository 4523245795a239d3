"""Violated shape and dtype annotations: the argument, the mismatch, and its origin."""

from __future__ import annotations

from pathlib import Path

import pytest
from forking import plain_run, whence_run

pytest.importorskip("jaxtyping")
pytest.importorskip("beartype")

HEAD = """
import torch
from beartype import beartype
from jaxtyping import Float, Int, Shaped, jaxtyped
from torch import Tensor, nn
"""

BROKEN: dict[str, tuple[str, str, str]] = {
    "beartype alone": (
        """
@beartype
def pooled(x: Float[Tensor, "batch 3 width"]):
    return x.sum((1, 2))

rows = torch.randn(4, 10, 8)
some = rows[:, 2:6]  # HERE
pooled(some * 2)
""",
        "shape/mismatch",
        "pooled: x should be Float[Tensor, 'batch 3 width'], got (4, 4, 8)",
    ),
    "by keyword, annotations as text": (
        """
@jaxtyped(typechecker=beartype)
def joined(left: "Float[Tensor, 'batch width']", *, right: "Float[Tensor, 'batch width']"):
    return torch.cat([left, right])

x = torch.randn(6, 5)
y = torch.zeros(6, 4)  # HERE
joined(x, right=y + 1)
""",
        "shape/mismatch",
        "joined: right should be Float[Tensor, 'batch width'], got (6, 4)",
    ),
    "too many axes": (
        """
@jaxtyped(typechecker=beartype)
def scored(x: Float[Tensor, "batch width"]):
    return x.sum()

x = torch.randn(6, 5)
y = x.unsqueeze(1)  # HERE
scored(y.relu())
""",
        "shape/mismatch",
        "scored: x should be Float[Tensor, 'batch width'], got (6, 1, 5)",
    ),
    "any axes in front": (
        """
@jaxtyped(typechecker=beartype)
def scored(x: Float[Tensor, "*batch width"], w: Float[Tensor, " width"]):
    return x @ w

x = torch.randn(2, 3, 6)
w = torch.ones(7)  # HERE
scored(x, w)
""",
        "shape/mismatch",
        "scored: w should be Float[Tensor, 'width'], got (7,)",
    ),
    "within containers": (
        """
@jaxtyped(typechecker=beartype)
def fused(
    maps: tuple[Float[Tensor, "batch width"], Float[Tensor, "batch width"]],
    more: list[int] | None = None,
):
    return len(maps)

first = torch.ones(4, 3)
second = torch.ones(4, 2)  # HERE
fused((first, second))
""",
        "shape/mismatch",
        "fused: maps[1] should be Float[Tensor, 'batch width'], got (4, 2)",
    ),
    "or nothing": (
        """
@jaxtyped(typechecker=beartype)
def masked(x: Float[Tensor, "batch time"], mask: Float[Tensor, "batch time"] | None = None):
    return x if mask is None else x * mask

masked(torch.ones(2, 5))
mask = torch.ones(2, 6)  # HERE
masked(torch.ones(2, 5), mask)
""",
        "shape/mismatch",
        "masked: mask should be Float[Tensor, 'batch time'], got (2, 6)",
    ),
    "what is returned": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    @jaxtyped(typechecker=beartype)
    def forward(self, x: Float[Tensor, "batch width"]) -> Float[Tensor, "batch width"]:
        y = self.fc(x)
        y = y[:, 1:]  # HERE
        return y.relu()

Net()(torch.randn(4, 8))
""",
        "shape/mismatch",
        "Net.forward: the result should be Float[Tensor, 'batch width'], got (4, 7)",
    ),
    "a layer of another width": (
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 6)  # HERE

    @jaxtyped(typechecker=beartype)
    def forward(self, x: Float[Tensor, "batch width"]) -> Float[Tensor, "batch width"]:
        return self.fc(x)

Net()(torch.randn(4, 8))
""",
        "shape/mismatch",
        "Net.forward: the result should be Float[Tensor, 'batch width'], got (4, 6)",
    ),
    "a type": (
        """
@beartype
def looked_up(ids: Int[Tensor, "batch time"]):
    return ids

ids = torch.arange(12).reshape(3, 4)
ids = ids / 2  # HERE
looked_up(ids)
""",
        "dtype/mismatch",
        "looked_up: ids should be Int[Tensor, 'batch time'], got float32",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_argument_and_its_birth_are_named(name: str, tmp_path: Path) -> None:
    text, rule, verdict = BROKEN[name]
    script = tmp_path / "train.py"
    script.write_text(HEAD + text)
    ran = whence_run(script, cwd=tmp_path)
    assert ran.code == 1
    (finding,) = ran.loud
    assert (finding["rule"], finding["verdict"]) == (rule, verdict)
    lines = script.read_text().splitlines()
    assert lines[finding["origin"]["line"] - 1].endswith("# HERE"), ran.stderr
    assert ran.document["not_watched"] == []
    assert ran.stdout == plain_run(script, cwd=tmp_path).stdout


NOT_OURS: dict[str, str] = {
    "a number of the wrong kind": """
@beartype
def scaled(x: Float[Tensor, "batch width"], by: int):
    return x * by

scaled(torch.ones(2, 3), 0.5)
""",
    "a fault of the program's own": """
@jaxtyped(typechecker=beartype)
def scaled(x: Float[Tensor, "batch width"]):
    raise TypeError("mine")

scaled(torch.ones(2, 3))
""",
    "sizes that an argument decides": """
@jaxtyped(typechecker=beartype)
def cut(x: Float[Tensor, "batch {width}"], width: int):
    return x

cut(torch.ones(2, 3), 4)
""",
}


@pytest.mark.parametrize("name", NOT_OURS)
def test_what_is_no_matter_of_shapes_is_left_alone(name: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(HEAD + NOT_OURS[name])
    ran = whence_run(script, cwd=tmp_path)
    assert ran.code == 1
    assert ran.findings == []
    assert ran.document["not_watched"] == []


def test_what_torch_refuses_within_is_told_as_ever(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        HEAD
        + """
@jaxtyped(typechecker=beartype)
def met(x: Float[Tensor, "batch width"], w: Float[Tensor, "rows columns"]):
    return x @ w

met(torch.ones(2, 3), torch.ones(4, 5))
"""
    )
    (finding,) = whence_run(script, cwd=tmp_path).loud
    assert "annotat" not in finding["verdict"] + finding["why"] + finding["fix"]
    assert finding["origin"]["op"] == "matmul"
