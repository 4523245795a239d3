"""A history that is a dict of lists, with a method to write to it."""

from collections import defaultdict
from typing import Any

import torch
from torch import nn


class History(defaultdict[str, list[Any]]):
    def __init__(self) -> None:
        super().__init__(list)

    def log(self, **values: Any) -> None:
        for name, value in values.items():
            self[name].append(value.item())


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    history = History()
    for _ in range(60):
        x = torch.randn(32, 16)
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.log(loss=loss)
    print(len(history["loss"]))


main()
