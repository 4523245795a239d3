"""Momentum contrast: a queue of 256 detached keys is a buffer, filled in a circle; logits are (N, 1 + 256) and every label is 0."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


class MoCo(nn.Module):
    def __init__(self, dim=16, size=256, m=0.9, t=0.2):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, dim))
        self.key = copy.deepcopy(self.query)
        self.key.requires_grad_(False)
        self.m, self.t = m, t
        with torch.no_grad():
            self.register_buffer("queue", F.normalize(self.key(torch.randn(size, 20)), dim=1))
        self.register_buffer("at", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def advance(self, keys):
        for k, q in zip(self.key.parameters(), self.query.parameters()):
            k.mul_(self.m).add_(q, alpha=1 - self.m)
        i = int(self.at)
        self.queue[i:i + len(keys)] = keys
        self.at.fill_((i + len(keys)) % len(self.queue))

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            k = F.normalize(self.key(b), dim=1)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone().T
        logits = torch.cat([pos, neg], 1) / self.t
        labels = torch.zeros(len(q), dtype=torch.long)
        return F.cross_entropy(logits, labels), k, (logits.argmax(1) == 0).float().mean().item()


def two_views(n):
    scene = torch.randn(n, 6) @ mix                # what the views share
    return scene + nuisance(n), scene + nuisance(n)


def nuisance(n):
    return 0.8 * torch.randn(n, 14) @ clutter + 0.05 * torch.randn(n, 20)


torch.manual_seed(33)
basis = torch.linalg.qr(torch.randn(20, 20)).Q
mix, clutter = basis[:6], basis[6:]
moco = MoCo()
opt = torch.optim.SGD(moco.query.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for step in range(100):
    loss, keys, hit = moco(*two_views(32))
    opt.zero_grad()
    loss.backward()
    opt.step()
    moco.advance(keys)
    if step % 20 == 0 or step == 99:
        print(f"step {step:2d} loss {loss.item():.3f} found {hit:.2f}")
