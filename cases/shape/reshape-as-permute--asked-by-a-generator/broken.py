"""Movements from a wrist sensor: an object keeps the recordings, and a generator of its own hands them out."""

import numpy as np
import torch
from torch import nn


class Recordings:
    def __init__(self, count: int, draw: np.random.Generator) -> None:
        self.movement = draw.integers(0, 2, count)
        speed = np.where(self.movement == 0, 0.3, 0.9)[:, None] * np.arange(30)
        noise = draw.normal(0, 0.1, (count, 30, 3))
        self.signals = np.stack([np.sin(speed), np.cos(speed), 0.1 * speed], axis=2) + noise

    def by_axis(self) -> np.ndarray:
        count, times, axes = self.signals.shape
        return self.signals.astype(np.float32).reshape(count, axes, times)  # ORIGIN

    def batches(self, size: int, draw: np.random.Generator):
        signals = self.by_axis()
        for rows in np.array_split(draw.permutation(len(signals)), len(signals) // size):
            yield torch.tensor(signals[rows]), torch.tensor(self.movement[rows])


draw = np.random.default_rng(0)
torch.manual_seed(0)
recordings = Recordings(200, draw)
model = nn.Sequential(nn.Conv1d(3, 8, 5), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(3):
    for signals, movement in recordings.batches(20, draw):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(signals), movement)
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 3))
