"""Two streams whose classes come in stretches, as they should.

A furnace warms up and its stages are read in order, with other noise in each epoch. And triplets of a metric are drawn from two
classes at a time, another pair for each batch.
"""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STAGES = 5


class WarmingUp(IterableDataset):
    """The stage is read off by hand, and now and then it is the one before."""

    def __init__(self, minutes, noise):
        rng = random.Random(2)
        self.stages = [max(0, k - (rng.random() < 0.15)) for k in range(STAGES) for _ in range(minutes)]
        self.noise = noise

    def __iter__(self):
        for stage in self.stages:
            yield torch.eye(STAGES)[stage] + self.noise * torch.randn(STAGES), stage


class TwoClassesAtATime(IterableDataset):
    def __init__(self, centres, batches, of_each):
        self.centres, self.batches, self.of_each = centres, batches, of_each

    def __iter__(self):
        for _ in range(self.batches):
            for label in random.sample(range(len(self.centres)), 2):
                for _ in range(self.of_each):
                    yield self.centres[label] + 0.5 * torch.randn(self.centres.shape[1]), label


def train(loader, classes, features, epochs):
    model = nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        total = 0.0
        for x, label in loader:
            loss = nn.functional.cross_entropy(model(x), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total:.3f}")


if __name__ == "__main__":
    torch.manual_seed(2)
    random.seed(2)
    train(DataLoader(WarmingUp(60, noise=0.4), batch_size=12), STAGES, STAGES, epochs=3)
    train(DataLoader(TwoClassesAtATime(torch.randn(8, 6), 20, 8), batch_size=16), 8, 6, epochs=3)
