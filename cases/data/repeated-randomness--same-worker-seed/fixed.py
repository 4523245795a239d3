"""Handwritten strokes turned by a random angle: is it a hook or a wave?"""
import math
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Strokes(Dataset):
    def __init__(self, count):
        time = torch.linspace(0, 1, 16)
        self.kind = [k % 2 for k in range(count)]
        shapes = [torch.stack([time, time**3]), torch.stack([time, torch.sin(6 * time) / 2])]
        self.points = [shapes[k] + 0.05 * torch.randn(2, 16) for k in self.kind]

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, k):
        angle = random.uniform(-0.6, 0.6)
        turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        size = random.uniform(0.8, 1.2)
        return size * turn @ self.points[k], self.kind[k]


class Fit:
    seed = 31

    def __init__(self):
        torch.manual_seed(self.seed)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 2))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.loader = DataLoader(Strokes(96), 12, shuffle=True, num_workers=2, worker_init_fn=self.begin_worker)

    def begin_worker(self, number):
        # as in the other experiments: every source of randomness follows the seed of the run
        random.seed(torch.initial_seed())

    def run(self, epochs):
        for epoch in range(epochs):
            total = 0.0
            for points, kind in self.loader:
                loss = nn.functional.cross_entropy(self.net(points), kind)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            print(f"epoch {epoch}: {total / len(self.loader):.4f}")


if __name__ == "__main__":
    Fit().run(3)
