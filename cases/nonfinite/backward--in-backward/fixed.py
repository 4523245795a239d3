"""Speeds from two sensors, with a penalty on how far apart they are; each weight has an optimizer that steps within backward."""

import torch
from torch import nn

torch.manual_seed(4)
model = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 2))
optimizers = {weight: torch.optim.Adam([weight], lr=2e-3) for weight in model.parameters()}


def update(weight):
    optimizers[weight].step()
    optimizers[weight].zero_grad()


for weight in optimizers:
    weight.register_post_accumulate_grad_hook(update)

signals = torch.randn(600, 6)
speeds = torch.stack([signals[:, :3].sum(1), signals[:, 3:].sum(1)], dim=1)
moving = torch.ones(600, 1)
moving[430] = 0.0

for at in range(0, 600, 10):
    guess = model(signals[at : at + 10])
    fit = (guess - speeds[at : at + 10]).square().mean()
    apart = (guess * moving[at : at + 10]).square().sum(1)
    loss = fit + 0.01 * (apart + 1e-8).sqrt().mean()
    loss.backward()
print(sum(int(weight.isnan().sum()) for weight in model.parameters()))
