"""Ridge-regularised polynomial fit with early stopping; best values start at infinity."""
import copy
import math

import torch
from torch import nn


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.bad = patience, 0
        self.best = torch.tensor(float("inf"))
        self.state = None

    def __call__(self, value, model):
        if value < self.best:
            self.best, self.bad = value.clone(), 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.bad += 1
        return self.bad >= self.patience


def features(x, degree=9):
    return torch.stack([x ** k for k in range(1, degree + 1)], 1)


torch.manual_seed(31)
x = torch.rand(40) * 2 - 1
y = torch.sin(3 * x) + 0.2 * torch.randn(40)
train, val = slice(0, 26), slice(26, 40)

model = nn.Linear(9, 1)
opt = torch.optim.Adam(model.parameters(), lr=0.05)
stop = EarlyStopping(patience=15)
lowest = torch.full((3,), math.inf)              # lowest train loss, val loss, weight norm
for epoch in range(400):
    loss = nn.functional.mse_loss(model(features(x[train])).squeeze(1), y[train])
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        val_loss = nn.functional.mse_loss(model(features(x[val])).squeeze(1), y[val])
        lowest = torch.minimum(lowest, torch.stack([loss, val_loss, model.weight.norm()]))
    if epoch % 60 == 0:
        print(f"epoch {epoch} train {loss.item():.4f} val {val_loss.item():.4f}")
    if stop(val_loss, model):
        print("stopped at epoch", epoch)
        break
model.load_state_dict(stop.state)
print("best validation loss", round(stop.best.item(), 4), "lowest", [round(v, 3) for v in lowest.tolist()])
