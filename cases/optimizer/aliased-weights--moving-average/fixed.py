"""A denoiser whose smoothed weights are the ones to be shipped."""

import torch
from torch import nn


class Smoothed:
    """Follows a model's weights slowly."""

    def __init__(self, model, rate=0.05):
        self.rate = rate
        self.source = list(model.parameters())
        self.slow = [each.detach().clone() for each in self.source]

    def follow(self):
        with torch.no_grad():
            for slow, live in zip(self.slow, self.source):
                slow.lerp_(live, self.rate)

    def distance(self):
        return max((slow - live).abs().max().item() for slow, live in zip(self.slow, self.source))


def signals(n):
    t = torch.linspace(0, 6, 24)
    clean = torch.sin(t * (1 + torch.rand(n, 1)) + 6 * torch.rand(n, 1))
    return clean + 0.3 * torch.randn(n, 24), clean


torch.manual_seed(1)
model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 24))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
smoothed = Smoothed(model)
for step in range(60):
    noisy, clean = signals(32)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(noisy), clean)
    loss.backward()
    optimizer.step()
    smoothed.follow()
    if step % 20 == 19:
        print(f"step {step + 1} loss {loss.item():.4f} lag {smoothed.distance():.4f}")
