import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


class RegressorV1(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.trunk(x))


class RegressorV2(nn.Module):
    """As V1, with a dropout that can be switched on."""

    def __init__(self, p=0.0):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.drop = nn.Dropout(p)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.drop(self.body(x)))


def batches(count, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        x = torch.randn(48, 6, generator=g)
        yield x, (x[:, :1] - x[:, 1:2]).abs()


def run(model, count, seed):
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for x, y in batches(count, seed):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(type(model).__name__, f"{loss.item():.4f}")
    return model


torch.manual_seed(0)
with tempfile.TemporaryDirectory() as d:
    file = Path(d, "v1.pt")
    torch.save(run(RegressorV1(), 60, seed=1).state_dict(), file)
    newer = RegressorV2(p=0.1)
    newer.load_state_dict(torch.load(file))  # ORIGIN
    run(newer, 30, seed=2)
