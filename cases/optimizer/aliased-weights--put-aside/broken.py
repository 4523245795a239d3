"""Smoothed weights, put in place of the live ones for each evaluation."""

import torch
from torch import nn


class Smoothed:
    def __init__(self, model, decay=0.95):
        self.model, self.decay, self.aside = model, decay, {}
        self.shadow = {name: p.data.clone() for name, p in model.named_parameters()}

    def update(self):
        for name, p in self.model.named_parameters():
            self.shadow[name] = (1 - self.decay) * p.data + self.decay * self.shadow[name]

    def __enter__(self):
        for name, p in self.model.named_parameters():
            self.aside[name] = p.data  # ORIGIN
            p.data.copy_(self.shadow[name])

    def __exit__(self, *_):
        for name, p in self.model.named_parameters():
            p.data.copy_(self.aside[name])


def batch(n):
    x = torch.randn(n, 6)
    return x, (x[:, :1] * x[:, 1:2]).tanh()


torch.manual_seed(19)
net = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
smoothed = Smoothed(net)
held = batch(300)
for epoch in range(4):
    for _ in range(15):
        x, y = batch(64)
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        smoothed.update()
    with smoothed, torch.no_grad():
        score = nn.functional.mse_loss(net(held[0]), held[1]).item()
    print(f"epoch {epoch} loss {loss.item():.4f} smoothed {score:.4f}")
