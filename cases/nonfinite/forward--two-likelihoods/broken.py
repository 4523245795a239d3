"""RealNVP-style flow on 8-bit images mapped through a logit."""
import math
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pixels(Dataset):
    def __init__(self, n=300, side=4):
        g = torch.Generator().manual_seed(5)
        self.images = torch.randint(1, 255, (n, side, side), generator=g, dtype=torch.uint8)
        self.images[123, 2, 1] = 255

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i].float().div(255).flatten()


class Coupling(nn.Module):
    def __init__(self, dim, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(dim // 2, 32), nn.Tanh(), nn.Linear(32, dim))

    def forward(self, x):
        a, b = x.chunk(2, -1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, -1)
        s = torch.tanh(s)
        b = b * s.exp() + t
        out = torch.cat([b, a] if self.flip else [a, b], -1)
        return out, s.sum(-1)


class LogitTransform(nn.Module):
    def forward(self, x):
        y = torch.log(x) - torch.log1p(-x)  # ORIGIN
        return y, -(torch.log(x) + torch.log1p(-x)).sum(-1)


class Flow(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.steps = nn.ModuleList([LogitTransform()] + [Coupling(dim, k % 2 == 1) for k in range(4)])

    def log_prob(self, x):
        total = x.new_zeros(len(x))
        for step in self.steps:
            x, ld = step(x)
            total = total + ld
        prior = -0.5 * (x ** 2 + math.log(2 * math.pi)).sum(-1)
        return prior + total


if __name__ == "__main__":
    torch.manual_seed(0)
    flow = Flow(16)
    optim = torch.optim.RMSprop(flow.parameters(), lr=1e-3)
    for epoch in range(2):
        for x in DataLoader(Pixels(), batch_size=25, shuffle=True):
            nll = -flow.log_prob(x).mean() / (16 * math.log(2))
            optim.zero_grad()
            nll.backward()
            optim.step()
        print("bits/dim", nll.item())
