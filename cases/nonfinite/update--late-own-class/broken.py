"""Wear of a bearing from its vibration; after some weeks a second microphone is added, of which one band is always silent."""
import torch
from torch import nn

from adaptive_broken import Adaptive


class Wear(nn.Module):
    def __init__(self, bands=8):
        super().__init__()
        self.first, self.second = nn.Linear(bands, 16), nn.Linear(bands, 16)
        self.out = nn.Linear(16, 1)

    def forward(self, near, far=None):
        hidden = self.first(near)
        if far is not None:
            hidden = hidden + self.second(far)
        return self.out(torch.sigmoid(hidden)).squeeze(1)


def readings(rng, count=12):
    near = torch.randn(count, 8, generator=rng)
    far = near.roll(1, 1)
    far[:, 5] = 0.0
    return near, far, torch.sin(near[:, 0]) + 0.3 * near[:, 1]


torch.manual_seed(5)
rng = torch.Generator().manual_seed(5)
model = Wear()
adaptive = Adaptive(model, rate=2e-3)
for day in range(820):
    near, far, wear = readings(rng)
    loss = nn.functional.mse_loss(model(near, far if day >= 680 else None), wear)
    adaptive.clear()
    loss.backward()
    adaptive.apply()
    if day % 100 == 0:
        print(f"day {day} {loss.item():.4f}")
