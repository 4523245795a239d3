"""Reading autograd's own graph when a step was not recorded."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from whence.lineage.live import live_birth, only_site

ZERO = torch.tensor([1.0, 0.0, 2.0])
Loss = Callable[[torch.Tensor], torch.Tensor]


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("log", lambda w: (w * ZERO).log().mean()),
        ("div", lambda w: (w / ZERO).sum() * 2),
        ("div", lambda w: (ZERO / (w * ZERO)).sum()),
        ("sqrt", lambda w: (w - 4.0).sqrt().mean()),
        ("pow", lambda w: ((w * ZERO) ** -1.0).mean()),
        ("softmax", lambda w: torch.softmax(w + torch.tensor(float("-inf")), -1).sum()),
        ("log_softmax", lambda w: F.log_softmax(w * 1e30 * 1e30, -1)[0]),
    ],
)
def test_the_operation_that_made_it(name: str, loss: Loss) -> None:
    weight = torch.full((3,), 2.0, requires_grad=True)
    made = loss(weight)
    assert not made.isfinite()
    born = live_birth(made)
    assert born is not None
    assert born.name == name
    # A value that autograd has not kept is not reported as known.
    assert bool(born.arguments) == (name not in ("sqrt", "softmax", "log_softmax"))


def test_nothing_is_found_where_all_is_finite_or_nothing_is_left() -> None:
    weight = torch.full((3,), 2.0, requires_grad=True)
    assert live_birth((weight * 3).log().mean()) is None
    spent = (weight * ZERO).log().mean()
    spent.backward()
    assert live_birth(spent) is None
    assert live_birth(torch.tensor(float("nan"))) is None


def test_reading_changes_nothing() -> None:
    torch.manual_seed(0)
    weight = torch.full((3,), 2.0, requires_grad=True)
    loss = (F.dropout(weight, 0.5) * ZERO).log().mean()
    state, version = torch.get_rng_state(), weight._version
    live_birth(loss)
    assert torch.equal(torch.get_rng_state(), state)
    assert weight._version == version
    assert weight.grad is None
    loss.backward()


def test_a_checkpointed_part_is_not_computed_again_in_the_program() -> None:
    runs = []

    def part(x: torch.Tensor) -> torch.Tensor:
        runs.append(1)
        return (x * ZERO).log()

    weight = torch.full((3,), 2.0, requires_grad=True)
    loss = checkpoint(part, weight, use_reentrant=False).mean()
    born = live_birth(loss)
    assert born is not None
    assert born.name == "log"
    assert len(runs) == 1
    loss.backward()
    assert len(runs) == 2


def test_a_line_is_named_only_if_there_is_one(tmp_path: Path) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text("def f(x):\n    return x.log()\n")
    two.write_text("import torch\ny = torch.log(z)\n")
    site = only_site("log", [str(one)])
    assert site is not None
    assert site.f_lineno == 2
    assert isinstance(site.node(), ast.Call)
    assert site.function == "f"
    assert only_site("log", [str(one), str(two)]) is None
    assert only_site("exp", [str(one)]) is None
