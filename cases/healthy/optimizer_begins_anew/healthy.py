"""The second stage has another optimizer; where the old state does not fit, it says so and begins anew."""
import copy

import torch
from torch import nn


def split(model):
    bias = [p for p in model.parameters() if p.ndim == 1]
    return [{"params": [p for p in model.parameters() if p.ndim > 1]}, {"params": bias, "weight_decay": 0.0}]


def stage(model, opt, steps):
    for _ in range(steps):
        x = torch.randn(48, 6)
        loss = nn.functional.mse_loss(model(x), x[:, :2] * x[:, 2:4])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{type(opt).__name__} {loss.item():.4f}")


torch.manual_seed(6)
model = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 2))
first = torch.optim.Adam(model.parameters(), lr=3e-3)
stage(model, first, 40)
saved = copy.deepcopy(first.state_dict())

second = torch.optim.AdamW(split(model), lr=1e-3, weight_decay=0.01)
try:
    second.load_state_dict(saved)
except ValueError as error:
    print("new optimizer state:", error)
stage(model, second, 40)
