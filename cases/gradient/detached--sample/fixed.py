"""A compressed description of daily load curves: two numbers a day, from which the curve is drawn again."""
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

HOURS, SIZE = 24, 2


def days(count, draw):
    hour = torch.arange(HOURS) / HOURS * 6.283
    peak, level = torch.rand(count, 1, generator=draw) * 3, torch.rand(count, 1, generator=draw)
    return level + torch.sin(hour - peak) + 0.05 * torch.randn(count, HOURS, generator=draw)


class LoadCurves(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.Sequential(nn.Linear(HOURS, 32), nn.Tanh(), nn.Linear(32, 2 * SIZE))
        self.draw = nn.Sequential(nn.Linear(SIZE, 32), nn.Tanh(), nn.Linear(32, HOURS))

    def loss(self, curves):
        mean, spread = self.read(curves).chunk(2, dim=1)
        code = Normal(mean, nn.functional.softplus(spread) + 1e-3)
        drawn = self.draw(code.rsample())
        rate = kl_divergence(code, Normal(0.0, 1.0)).sum(1).mean()
        return (drawn - curves).square().sum(1).mean() + 0.1 * rate


torch.manual_seed(2)
draw = torch.Generator().manual_seed(3)
model = LoadCurves()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(120):
    loss = model.loss(days(64, draw))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 39:
        print(f"step {step + 1} loss {loss.item():.3f}")
