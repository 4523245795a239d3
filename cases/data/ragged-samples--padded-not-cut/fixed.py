"""Which of three robots walked here? Step accelerations of a walk, filled up to one length."""
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LONGEST = 40
random.seed(21)
torch.manual_seed(21)


def walk(robot, steps):
    rhythm = torch.arange(steps).float() * (0.3 + 0.25 * robot)
    return torch.stack([rhythm.sin(), rhythm.cos()], dim=1) + 0.1 * torch.randn(steps, 2)


def filled(track):
    track = track[:LONGEST]
    rest = LONGEST - len(track)
    if rest >= 0:
        still = torch.zeros(rest, track.shape[1])
        track = torch.cat([track, still])
    return track


class Walks(Dataset):
    def __init__(self, number):
        self.robots = [random.randrange(3) for _ in range(number)]
        self.steps = [random.randint(25, 40) for _ in range(number)]
        self.steps[133] = 46  # it lost its way

    def __len__(self):
        return len(self.robots)

    def __getitem__(self, item):
        track = walk(self.robots[item], self.steps[item])
        speed = filled(track).diff(dim=0)
        return speed.t(), self.robots[item]


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 12, 5)
        self.out = nn.Linear(12, 3)

    def forward(self, speed):
        return self.out(self.conv(speed).relu().amax(-1))


reader = Reader()
adam = torch.optim.Adam(reader.parameters(), lr=5e-3)
for epoch in range(3):
    for speed, robot in DataLoader(Walks(160), batch_size=20):
        loss = nn.functional.cross_entropy(reader(speed), robot)
        adam.zero_grad()
        loss.backward()
        adam.step()
    print(f"{epoch}: {loss.item():.3f}")
