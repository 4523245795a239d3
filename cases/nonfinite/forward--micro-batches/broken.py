"""Faults on a power line: a few sensors at a time, gradients added up over several sensors."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Plan:
    sensors: int = 4
    updates: int = 120
    rate: float = 3e-3


class Windows:
    """Windows of readings; those in which the sensor was silent are not to count."""

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)
        self.given = 0

    def draw(self, n=3, length=16):
        self.given += 1
        readings = torch.randn(n, length, generator=self.rng)
        works = torch.rand(n, generator=self.rng) < 0.9
        works[0] = self.given != 442
        works[1:] &= self.given != 442
        fault = (readings.abs().amax(1) > 2).float()
        return readings, fault, works


def train(plan, net, windows):
    optimizer = torch.optim.Adam(net.parameters(), lr=plan.rate)
    for update in range(plan.updates):
        seen = 0.0
        optimizer.zero_grad()
        for _ in range(plan.sensors):
            readings, fault, works = windows.draw()
            scores = net(readings).squeeze(1)
            each = nn.functional.binary_cross_entropy_with_logits(scores, fault, reduction="none")
            loss = each[works].mean()  # ORIGIN
            (loss / plan.sensors).backward()
            seen += loss.item() / plan.sensors
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        if update % 20 == 0:
            print(f"update {update} loss {seen:.3f}")


torch.manual_seed(5)
train(Plan(), nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 1)), Windows(5))
