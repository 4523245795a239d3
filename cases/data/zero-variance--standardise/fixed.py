# Rain gauge network: tomorrow's river level from today's readings (standardised)
import torch
from torch import nn


class Standardiser:
    def fit(self, x):
        self.mean = x.mean(dim=0)
        self.std = x.std(dim=0)
        self.std[self.std == 0] = 1.0
        return self

    def __call__(self, x):
        return (x - self.mean) / self.std


class RiverNet(nn.Module):
    def __init__(self, gauges):
        super().__init__()
        self.lstm = nn.LSTM(gauges, 16, batch_first=True)
        self.level = nn.Linear(16, 1)

    def forward(self, x):
        states, _ = self.lstm(x)
        return self.level(states[:, -1]).squeeze(-1)


def season(days, gauges, gen):
    rain = torch.rand(days, gauges, generator=gen).mul(30)
    rain[:, 2] = 0.0                      # in the rain shadow
    level = 1 + rain.roll(1, 0).mean(1) / 20
    return rain, level


def windows(x, y, length):
    starts = torch.arange(len(x) - length)
    return torch.stack([x[s:s + length] for s in starts]), y[starts + length]


gen = torch.Generator().manual_seed(19)
rain, level = season(120, 5, gen)
scale = Standardiser().fit(rain[:100])
xs, ys = windows(scale(rain), level, length=6)

torch.manual_seed(19)
net = RiverNet(gauges=5)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(4):
    for idx in torch.randperm(90, generator=gen).split(30):
        loss = nn.functional.huber_loss(net(xs[idx]), ys[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        val = nn.functional.huber_loss(net(xs[90:]), ys[90:])
    print(f"epoch {epoch} train {loss.item():.4f} val {val.item():.4f}")
