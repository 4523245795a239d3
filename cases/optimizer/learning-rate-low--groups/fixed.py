"""Lower layers learn more slowly than those above them."""

import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self, depth=8, width=24):
        super().__init__()
        self.enter = nn.Linear(10, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, 3)

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.leave(x)


def by_depth(model, rate, factor):
    parts = [model.leave, *reversed(model.layers), model.enter]
    return [{"params": part.parameters(), "lr": rate * factor**below} for below, part in enumerate(parts)]


torch.manual_seed(1)
model = Deep()
optimizer = torch.optim.AdamW(by_depth(model, 2e-3, 0.8))
x = torch.randn(640, 10)
y = (x[:, :3] * x[:, 3:6]).argmax(dim=1)
for epoch in range(4):
    for rows in torch.randperm(640).split(32):
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
