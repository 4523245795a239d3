import math

import torch
import torch.nn as nn


class PeriodNet(nn.Module):
    """Predicts the (scaled) period of a pendulum from length and amplitude."""

    def __init__(self, hidden=24):
        super().__init__()
        self.l1 = nn.Linear(2, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        x = torch.tanh(self.l1(x))
        x = torch.tanh(self.l2(x))
        return self.out(x)


def make_data(n):
    length = torch.rand(n) * 1.5 + 0.5
    amp = torch.rand(n) * 1.2
    period = 2 * math.pi * torch.sqrt(length / 9.81) * (1 + amp ** 2 / 16)
    x = torch.stack([(length - 1.25) / 0.43, (amp - 0.6) / 0.35], dim=1)
    return x, (period - period.mean()) / period.std()


def train(net, x, t, steps=60, bs=40):
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(steps):
        idx = torch.randint(0, len(x), (bs,))
        out = net(x[idx])
        err = (out - t[idx]) ** 2  # ORIGIN
        loss = err.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0 or step == steps - 1:
            print(f"step {step:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(3)
    x, t = make_data(400)
    train(PeriodNet(), x, t)
