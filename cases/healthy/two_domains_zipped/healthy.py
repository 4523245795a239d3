"""Domain adaptation: labelled summer pictures, unlabelled winter ones. Which stands beside which does not matter."""
import random

import torch
from torch import nn


def load(n, rnd):
    summer, winter = [], []
    for _ in range(n):
        kind = rnd.randrange(2)
        summer.append((torch.randn(6) + 1.5 * kind, kind))
        winter.append(torch.randn(6) + 1.5 * rnd.randrange(2) + 0.5)
    return summer, winter


rnd = random.Random(3)
torch.manual_seed(3)
summer, winter = load(240, rnd)
body, head = nn.Sequential(nn.Linear(6, 16), nn.ReLU()), nn.Linear(16, 2)
opt = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=5e-3)
rnd.shuffle(summer)
pairs = list(zip(summer, winter))
for epoch in range(4):
    total = 0.0
    for i in range(0, 240, 24):
        part = pairs[i:i + 24]
        x = torch.stack([s for (s, _), _ in part])
        y = torch.tensor([kind for (_, kind), _ in part])
        there, here = body(torch.stack([w for _, w in part])), body(x)
        loss = nn.functional.cross_entropy(head(here), y) + 0.1 * (here.mean(0) - there.mean(0)).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch}: {total:.3f}")
# How it does on the training pictures, in the order of their kind.
by_kind = sorted(summer, key=lambda pair: pair[1])
for i in range(0, 240, 24):
    x, y = torch.stack([s for s, _ in by_kind[i:i + 24]]), torch.tensor([k for _, k in by_kind[i:i + 24]])
    print(f"{nn.functional.cross_entropy(head(body(x)), y).item():.3f}", end=" ")
print()
