"""A range test that raises the rate by the same amount in every step, stops where the loss explodes and puts the weights back."""
import copy
import math

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(512, 10)
y = (x[:, :3].prod(1, keepdim=True) + x[:, 3:4])


def make():
    return nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 1))


def linear_range(model, top=8.0, steps=160):
    kept = copy.deepcopy(model.state_dict())
    opt = torch.optim.SGD(model.parameters(), lr=top / steps)
    curve = []
    for k in range(steps):
        opt.param_groups[0]["lr"] = top * (k + 1) / steps
        idx = torch.randint(0, 512, (32,))
        loss = (model(x[idx]) - y[idx]).square().mean()
        if not math.isfinite(loss.item()) or (curve and loss.item() > 50 * curve[0][1]):
            break
        curve.append((opt.param_groups[0]["lr"], loss.item()))
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.load_state_dict(kept)
    return curve


model = make()
curve = linear_range(model)
rate = min(curve, key=lambda c: c[1])[0] / 10
print("stopped after", len(curve))
opt = torch.optim.SGD(model.parameters(), lr=min(rate, 0.05), momentum=0.9)
for epoch in range(6):
    tot = 0.0
    for idx in torch.randperm(512).split(32):
        loss = (model(x[idx]) - y[idx]).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
    print(epoch, round(tot / 16, 4))
