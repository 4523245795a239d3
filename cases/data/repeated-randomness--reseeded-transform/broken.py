"""Tiny point-cloud classifier with a pipeline of transforms."""
import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Compose:
    def __init__(self, *steps):
        self.steps = steps

    def __call__(self, cloud):
        for step in self.steps:
            cloud = step(cloud)
        return cloud


class RandomRotation:
    def __init__(self, degrees, seed=1234):
        self.limit = math.radians(degrees)
        self.seed = seed

    def __call__(self, cloud):
        angle = np.random.default_rng(self.seed).uniform(-self.limit, self.limit)  # ORIGIN
        c, s = math.cos(angle), math.sin(angle)
        return cloud @ torch.tensor([[c, -s], [s, c]])


class Center:
    def __call__(self, cloud):
        return cloud - cloud.mean(0)


class Clouds(Dataset):
    def __init__(self, count, transform):
        g = torch.Generator().manual_seed(55)
        self.labels = torch.randint(0, 3, (count,), generator=g)
        widths = torch.tensor([[1.0, 1.0], [1.4, 0.3], [0.3, 1.4]])
        self.clouds = torch.randn(count, 24, 2, generator=g) * widths[self.labels][:, None]
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        return self.transform(self.clouds[idx]), self.labels[idx]


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.per_point = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32))
        self.head = nn.Linear(32, 3)

    def forward(self, cloud):
        return self.head(self.per_point(cloud).amax(dim=1))


np.random.seed(55)
torch.manual_seed(55)
loader = DataLoader(Clouds(240, Compose(Center(), RandomRotation(30))), batch_size=24, shuffle=True)
net = PointNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(4):
    losses = []
    for cloud, label in loader:
        loss = nn.functional.cross_entropy(net(cloud), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print(f"epoch {epoch} loss {np.mean(losses):.3f}")
