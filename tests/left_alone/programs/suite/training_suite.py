"""A passing test suite: it trains, and expects torch's usual warnings where they occur."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn


def train(model, steps=8, data=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        x = torch.randn(8, 4) if data is None else data
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), torch.zeros(8, 1))
        loss.backward()
        optimizer.step()
    return loss.item()


def test_trains():
    torch.manual_seed(0)
    assert train(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))) < 1


def test_broadcast_is_warned_of_here():
    with pytest.warns(UserWarning, match="target size") as seen:
        F.mse_loss(torch.randn(8, 1), torch.randn(8))
    assert [each.filename for each in seen] == [__file__]


def test_scheduler_order_is_warned_of_here():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="lr_scheduler.step") as seen:
        scheduler.step()
    assert len(seen) == 1
    train(model)


def test_softmax_without_dim_is_warned_of_here():
    with pytest.warns(UserWarning, match="Implicit dimension") as seen:
        F.softmax(torch.randn(3, 4))
    assert [each.filename for each in seen] == [__file__]


def test_a_shape_error_is_expected():
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        nn.Linear(4, 1)(torch.randn(8, 5))


def test_a_nan_is_expected_and_nothing_is_printed(capsys):
    assert train(nn.Linear(4, 1), data=torch.full((8, 4), float("nan"))) != 0
    assert capsys.readouterr() == ("", "")


def test_a_nan_is_expected_and_nothing_reaches_the_descriptors(capfd):
    assert train(nn.Linear(4, 1), data=torch.full((8, 4), float("inf"))) != 0
    assert capfd.readouterr() == ("", "")
