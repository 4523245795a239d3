"""Next-hour load of several feeders: each hour is to be told from the hours before it."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Plan:
    feeders: int = 3
    hours: int = 24
    width: int = 24
    batch: int = 16


def load_table(plan, length=600):
    rng = np.random.default_rng(12)
    t = np.arange(length)[:, None]
    phase = rng.uniform(0, 6, (1, plan.feeders))
    table = np.sin(t / 3.8 + phase) + 0.4 * np.sin(t / 26.7) + rng.normal(0, 0.1, (length, plan.feeders))
    return torch.from_numpy(table.astype("float32"))


def windows(table, plan, count):
    for _ in range(count):
        starts = torch.randint(0, len(table) - plan.hours, (plan.batch,))
        yield table[starts[:, None] + torch.arange(plan.hours + 1)]


class HourAhead(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.lift = nn.Linear(plan.feeders, plan.width)
        self.hour = nn.Parameter(0.1 * torch.randn(plan.hours, plan.width))
        self.over_time = nn.MultiheadAttention(plan.width, num_heads=2, batch_first=True)
        self.tell = nn.Linear(plan.width, plan.feeders)

    def forward(self, load):
        h = self.lift(load) + self.hour
        mixed, _ = self.over_time(h, h, h)  # ORIGIN
        return self.tell(torch.relu(h + mixed))


def main():
    torch.manual_seed(12)
    plan = Plan()
    model = HourAhead(plan)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step, window in enumerate(windows(load_table(plan), plan, 80), start=1):
        error = nn.functional.mse_loss(model(window[:, :-1]), window[:, 1:])
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} mse {error.item():.4f}")


main()
