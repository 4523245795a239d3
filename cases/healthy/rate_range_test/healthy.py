"""A range test before training: the rate is raised by the same factor in every step until the loss is beyond all bounds, the weights
are put back, and training begins with a tenth of the best."""

import copy
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)


def build():
    return nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def find_rate(model, loader, low=1e-6, high=30.0, steps=60):
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=low)
    rates, losses = [], []
    batches = iter(loader)
    for step in range(steps):
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(loader)
            x, y = next(batches)
        rate = low * (high / low) ** (step / (steps - 1))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = nn.functional.mse_loss(model(x), y)
        rates.append(rate)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]) or losses[-1] > 1e6 * min(losses):
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.load_state_dict(before)
    best = min(range(len(losses)), key=losses.__getitem__)
    print("tried", len(rates), "rates, best", f"{rates[best]:.3g}")
    return rates[best] / 10


x = torch.randn(320, 8)
y = (x**2).sum(1, keepdim=True)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = build()
optimizer = torch.optim.SGD(model.parameters(), lr=find_rate(model, loader), momentum=0.9)
for epoch in range(6):
    total = 0.0
    for a, b in loader:
        loss = nn.functional.mse_loss(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, round(total / len(loader), 4))
