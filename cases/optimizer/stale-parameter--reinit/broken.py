import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, d=16, h=32):
        super().__init__()
        self.proj = nn.Linear(d, h)
        self.score = nn.Linear(h, 1)

    def reset(self):
        self.proj.weight = nn.Parameter(nn.init.orthogonal_(torch.empty(32, 16)))  # ORIGIN
        nn.init.zeros_(self.proj.bias)

    def forward(self, x):
        return self.score(torch.tanh(self.proj(x))).squeeze(-1)


class Experiment:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model = Scorer()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.truth = torch.randn(16) / 4
        self.model.reset()

    def batch(self, n=64):
        x = torch.randn(n, 16)
        return x, torch.tanh(2 * (x @ self.truth)) + 0.05 * torch.randn(n)

    def run(self, steps):
        for s in range(steps):
            x, y = self.batch()
            err = (self.model(x) - y).pow(2).mean()
            self.opt.zero_grad()
            err.backward()
            self.opt.step()
            if s % 10 == 0:
                print("%3d  %.4f" % (s, err.item()))


Experiment(seed=1).run(60)
