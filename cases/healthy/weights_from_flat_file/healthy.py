"""Weights that are kept flat, as in a file of an export, and brought into shape when training goes on: first a few steps, then
again from where they were, one line for every tensor. The first layer is square and begins with its bias."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
WIDTH = 16


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(WIDTH))
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5)

    def forward(self, x):
        return x @ self.weight.t() + self.bias


def export(model, path):
    np.savez(path, **{name: value.detach().numpy().ravel() for name, value in model.state_dict().items()})


@torch.no_grad()
def load(model, path):
    with np.load(path) as stored:
        for name, weight in model.named_parameters():
            weight.copy_(torch.from_numpy(stored[name]).reshape(weight.shape))


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x = torch.randn(WIDTH, WIDTH)
        loss = nn.functional.mse_loss(model(x), x.roll(1, dims=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            print(step, round(loss.item(), 4))


model = nn.Sequential(Shift(), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "weights.npz"
    for _ in range(3):
        train(model, 8)
        export(model, path)
        load(model, path)
print(sum(each.double().sum().item() for each in model.parameters()))
