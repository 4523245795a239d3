from collections import defaultdict

import torch
from torch import nn


class Lookahead(torch.optim.Optimizer):
    """k fast steps of any optimizer, then slow weights move a part of the way and the fast ones jump back to them."""

    def __init__(self, base, k=5, alpha=0.5):
        self.base, self.k, self.alpha = base, k, alpha
        self.param_groups = base.param_groups
        self.defaults = base.defaults
        self.state = defaultdict(dict)
        self.counter = 0
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["slow"] = p.detach().clone()

    def zero_grad(self, set_to_none=True):
        self.base.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure=None):
        out = self.base.step(closure)
        self.counter += 1
        if self.counter % self.k == 0:
            for group in self.param_groups:
                for p in group["params"]:
                    slow = self.state[p]["slow"]
                    slow += self.alpha * (p - slow)
                    p.copy_(slow)
        return out


torch.manual_seed(66)
model = nn.Sequential(nn.Linear(5, 40), nn.SiLU(), nn.Linear(40, 1))
opt = Lookahead(torch.optim.Adam(model.parameters(), lr=8e-3))

for step in range(100):
    x = torch.randn(160, 5)
    y = (x[:, 0] * x[:, 1] + x[:, 2].abs()).unsqueeze(-1)
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0 or step == 99:
        print(f"{step:2d}: {loss.item():.4f}")
