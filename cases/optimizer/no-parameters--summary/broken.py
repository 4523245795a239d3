"""A pairwise ranker. The sizes of its weights are printed before the optimizer gets them."""

import torch
from torch import nn


def table(weights):
    rows = [f"{tuple(each.shape)!s:>12} {each.numel():6d}" for each in weights]
    print("\n".join(rows))


class Ranker(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, better, worse):
        return self.score(better) - self.score(worse)


def fit(model, steps):
    weights = model.parameters()  # ORIGIN
    table(weights)
    optimizer = torch.optim.AdamW(weights, lr=1e-2)
    for step in range(steps):
        a, b = torch.randn(64, 5), torch.randn(64, 5)
        first = (a.sum(1) > b.sum(1)).unsqueeze(1)
        margin = model(torch.where(first, a, b), torch.where(first, b, a))
        loss = nn.functional.softplus(-margin).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


torch.manual_seed(9)
fit(Ranker(5), steps=40)
