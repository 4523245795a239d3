"""Windows of heart rates before and after a run, batches cut by hand."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Setup:
    window: int = 20
    runners: int = 90
    batch: int = 15
    epochs: int = 4


def recording(rng, fit):
    beats = 60 + 25 * fit + np.cumsum(rng.normal(0.6, 1.0, rng.integers(18, 60)))
    return (beats - 90) / 20


def windows(setup, rng):
    pairs = []
    for runner in range(setup.runners):
        fit = runner % 2
        series = recording(rng, fit)
        part = series[: setup.window]
        if len(part) < setup.window:
            continue
        pairs.append((part.astype(np.float32), fit))
    return pairs


class Batches:
    def __init__(self, pairs, size, rng):
        self.pairs, self.size, self.rng = pairs, size, rng

    def put_together(self, group):
        series = torch.from_numpy(np.stack([beats for beats, _ in group]))
        return series, torch.tensor([fit for _, fit in group])

    def __iter__(self):
        self.rng.shuffle(self.pairs)
        for at in range(0, len(self.pairs), self.size):
            yield self.put_together(self.pairs[at : at + self.size])


def main(setup):
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    pairs = windows(setup, rng)
    net = nn.Sequential(nn.Linear(setup.window, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(setup.epochs):
        for series, fit in Batches(pairs, setup.batch, rng):
            loss = nn.functional.cross_entropy(net(series), fit)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}")


main(Setup())
