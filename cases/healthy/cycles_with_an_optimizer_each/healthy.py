"""A snapshot ensemble: each cycle has an optimizer and a cosine of its own, and leaves a model behind at its end."""

import copy

import torch
from torch import nn

STEPS = 20

torch.manual_seed(0)
x = torch.randn(600, 10)
y = (x[:, 0] * x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
snapshots = []
for cycle in range(5):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1 * 0.9**cycle, momentum=0.9)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        rows = torch.randint(0, len(x), (64,))
        loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        cosine.step()
    snapshots.append(copy.deepcopy(net).eval())
    print(f"cycle {cycle} loss {loss.item():.4f}")
with torch.no_grad():
    votes = torch.stack([each(x).softmax(-1) for each in snapshots]).mean(0)
print(f"together {(votes.argmax(1) == y).float().mean().item():.3f}")
