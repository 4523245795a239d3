# A stream of simulated orbits: each is made up from its own number, so that any of them can be looked at again.
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Orbits(IterableDataset):
    def __init__(self, count):
        self.count = count

    def one(self, number):
        g = torch.Generator().manual_seed(number)
        radius, phase = 0.5 + torch.rand(2, generator=g)
        angles = torch.arange(12) * 0.3 / radius**1.5 + phase * math.pi
        points = radius * torch.stack([angles.cos(), angles.sin()], 1)
        return points + 0.01 * torch.randn(points.shape, generator=g), radius

    def __iter__(self):
        return (self.one(number) for number in range(self.count))


torch.manual_seed(0)
net = nn.Sequential(nn.Flatten(), nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(4):
    total = 0.0
    for points, radius in DataLoader(Orbits(300), batch_size=20):
        loss = nn.functional.mse_loss(net(points), radius)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() / 15
    print(f"epoch {epoch}: {total:.4f}")
