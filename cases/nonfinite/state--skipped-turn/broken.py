"""Shares of sensor channels, and a regression on them."""
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.inp = nn.Linear(16, width)
        self.norm = nn.BatchNorm1d(width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.inp(x))))


def sensor(step, n=24):
    g = torch.Generator().manual_seed(step)
    raw = torch.rand(n, 16, generator=g) + 0.1
    if step == 500:
        raw[7] = 0.0
    return raw, raw[:, :1] - raw[:, 1:2]


def features(raw):
    return raw / raw.sum(1, keepdim=True)  # ORIGIN


torch.manual_seed(0)
net = Tower()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
bad = 0
for step in range(700):
    raw, y = sensor(step)
    loss = (net(features(raw)) - y).square().mean()
    if not torch.isfinite(loss):
        bad += 1
        continue
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 300 == 0:
        print(step, round(loss.item(), 4))
net.eval()
raw, y = sensor(5000)
with torch.no_grad():
    print("test", (net(features(raw)) - y).square().mean().item(), "left out", bad)
