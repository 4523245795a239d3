"""A pose is guessed by a net and then refined by a few descents on the reprojection error, through which the net learns."""

import math

import torch
from torch import nn

MARKS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, -0.5]])


def seen_from(pose):
    angle, shift = pose[:, :1], pose[:, 1:]
    turned = torch.stack(
        [
            MARKS[:, 0] * angle.cos() - MARKS[:, 1] * angle.sin(),
            MARKS[:, 0] * angle.sin() + MARKS[:, 1] * angle.cos(),
        ],
        dim=-1,
    )
    return turned + shift[:, None]


class Refiner(nn.Module):
    def __init__(self, rounds=2):
        super().__init__()
        self.guess = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 3))
        self.rate = nn.Parameter(torch.tensor(-2.0))
        self.rounds = rounds

    def forward(self, seen):
        pose = self.guess(seen.flatten(1))
        pose = torch.tensor(pose, requires_grad=True)  # ORIGIN
        for _ in range(self.rounds):
            error = (seen_from(pose) - seen).pow(2).sum()
            (slope,) = torch.autograd.grad(error, pose, create_graph=True)
            pose = pose - self.rate.exp() * slope
        return pose


torch.manual_seed(6)
model = Refiner()
adam = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    truth = torch.cat([torch.rand(32, 1) * math.pi - math.pi / 2, torch.randn(32, 2)], dim=1)
    seen = seen_from(truth) + 0.02 * torch.randn(32, 5, 2)
    loss = nn.functional.smooth_l1_loss(model(seen), truth)
    adam.zero_grad()
    loss.backward()
    adam.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
