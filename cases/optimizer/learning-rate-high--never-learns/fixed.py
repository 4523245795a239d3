"""Patterns of ten by ten, in six classes."""

import torch
from torch import nn


def batches(count):
    shapes = torch.randn(6, 1, 10, 10, generator=torch.Generator().manual_seed(9))
    for _ in range(count):
        y = torch.randint(0, 6, (32,))
        yield shapes[y] + 0.8 * torch.randn(32, 1, 10, 10), y


def train(rate):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * 25, 48),
        nn.ReLU(),
        nn.Linear(48, 6),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    for number, (x, y) in enumerate(batches(120)):
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 30 == 29:
            print(f"step {number} loss {loss.item():.3f}")


train(rate=3e-3)
