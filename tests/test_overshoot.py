"""Undoing Adam's last update gives the weights from before it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim import Adam, AdamW

from whence.watching.overshoot import before_last_update

SETTINGS: list[dict[str, Any]] = [{}, {"weight_decay": 0.1}, {"amsgrad": True}, {"maximize": True}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_weights_are_those_from_before(kind: Any, settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    weights = [torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)]
    optimizer = kind(weights, lr=0.3, **settings)
    for _ in range(4):
        before = [each.detach().clone() for each in weights]
        optimizer.zero_grad()
        (torch.randn(5, 3) @ weights[0] + weights[1]).square().sum().backward()
        optimizer.step()
    for (weight, found), wanted, known in zip(
        before_last_update(optimizer), before, weights, strict=True
    ):
        assert weight is known
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_weights_without_a_gradient_in_the_last_step_are_left_out() -> None:
    used, left = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = Adam([used, left], lr=0.1)
    (used.sum() + left.sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
    used.square().sum().backward()
    optimizer.step()
    assert [weight for weight, _ in before_last_update(optimizer)] == [used]
