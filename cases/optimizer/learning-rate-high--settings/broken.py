"""Settings in a dataclass, handed from function to function."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Settings:
    width: int = 32
    rate: float = 0.01
    momentum: float = 0.9
    batch: int = 20


def build(settings):
    net = nn.Sequential(nn.Linear(4, settings.width), nn.ReLU(), nn.Linear(settings.width, settings.width), nn.ReLU())
    net.append(nn.Linear(settings.width, 1))
    return net, torch.optim.SGD(net.parameters(), lr=settings.rate, momentum=settings.momentum)


def train(settings, points, heights):
    net, optimizer = build(settings)
    for epoch in range(3):
        for rows in torch.randperm(len(points)).split(settings.batch):
            loss = nn.functional.mse_loss(net(points[rows]), heights[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} {loss.item():.4g}")


torch.manual_seed(2)
points = torch.rand(400, 4) * 4 - 2
settings = Settings(width=48, rate=0.8)  # ORIGIN
train(settings, points, (points**2).sum(1, keepdim=True))
