"""Work beyond the budget is omitted and reported once; the minimum and real failures are exempt."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from forking import whence_run

from whence.watching import budget as budgets
from whence.watching.budget import END_SECONDS, FLOOR_SECONDS, FREE_OF_EACH, Budget


class Spender:
    def __init__(self) -> None:
        self.seconds = 0.0

    def cost(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [0.0]
    monkeypatch.setattr(budgets, "cpu_seconds", lambda: clock[0])
    return clock


def test_there_is_room_up_to_the_floor_and_a_share_of_the_run(now: list[float]) -> None:
    spender = Spender()
    budget = Budget(0.03, spender.cost)
    spender.seconds = FLOOR_SECONDS + 0.02
    assert not budget.has_room()
    now[0] = 10.0
    assert budget.has_room()
    spender.seconds = FLOOR_SECONDS + 0.4
    assert not budget.has_room()


def test_the_imports_count_and_the_last_audit_has_its_part(now: list[float]) -> None:
    spender = Spender()
    budget = Budget(0.03, spender.cost)
    spender.seconds = FLOOR_SECONDS - END_SECONDS - 0.1
    assert budget.has_room()
    budget.note_start(0.11)
    assert not budget.has_room()


def test_work_is_expected_to_cost_what_the_last_of_its_kind_did(now: list[float]) -> None:
    spender = Spender()
    budget = Budget(0.03, spender.cost)
    with budget.spending("audits"):
        now[0] += 0.5
    spender.seconds = 0.5
    assert budget.has_room()
    assert not budget.has_room("audits"), "it would end beyond the floor"
    with budget.spending("audits"):
        now[0] += 0.1
    assert budget.has_room("audits")


def test_the_diagnosis_of_a_failure_does_not_count(now: list[float]) -> None:
    spender = Spender()
    budget = Budget(0.03, spender.cost)
    spender.seconds, budget.exempt = 20.0, 19.9
    assert budget.has_room()


def test_the_first_of_a_kind_are_looked_at_whatever_they_cost_and_the_others_are_counted_once(
    now: list[float],
) -> None:
    spender = Spender()
    spender.seconds = math.inf
    budget = Budget(0.03, spender.cost)
    assert all(budget.allows("loaders", each, each) for each in range(FREE_OF_EACH))
    assert budget.summary() is None
    assert not any(budget.allows("loaders", each, each) for each in (*range(FREE_OF_EACH, 9), 5, 6))
    assert (
        budget.summary()
        == f"{9 - FREE_OF_EACH} loaders skipped to stay within the budget; --budget raises it"
    )


def test_what_fits_later_is_no_longer_left_out(now: list[float]) -> None:
    spender = Spender()
    budget = Budget(0.03, spender.cost)
    spender.seconds = 1.0
    assert not budget.allows("loaders", "this one", FREE_OF_EACH)
    now[0] = 100.0
    assert budget.allows("loaders", "this one", FREE_OF_EACH)
    assert budget.summary() is None


SEARCH = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
for number in range(12):
    x = torch.randn(640, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(data, batch_size=16 + number, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 8 + number), nn.ReLU(), nn.Linear(8 + number, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(3):
        for features, targets in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(features), targets).backward()
            optimizer.step()
"""


def test_a_small_budget_leaves_loaders_out_and_says_so_and_a_large_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "FLOOR_SECONDS", 0.0)
    script = tmp_path / "search.py"
    script.write_text(SEARCH)
    small = whence_run(script, "--budget", "0.000001", cwd=tmp_path)
    said = [
        each
        for each in small.document["not_watched"]
        if "skipped to stay within the budget" in each
    ]
    assert len(said) == 1
    assert f"{12 - FREE_OF_EACH} loaders" in said[0]
    assert small.loud == []
    large = whence_run(script, "--budget", "1", cwd=tmp_path)
    assert large.document["not_watched"] == []
