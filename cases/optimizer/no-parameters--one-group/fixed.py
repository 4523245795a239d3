"""Two rates for a stock forecaster: a slow one for the body, a fast one for a trend that is learnt beside it."""

import torch
from torch import nn


class Body(nn.Module):
    def __init__(self, days):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(days, 40), nn.ReLU(), nn.Linear(40, 1))

    def forward(self, history):
        return self.layers(history)[:, 0]


def closes(n, days):
    walk = (0.2 + torch.randn(n, days + 1)).cumsum(1)
    return walk[:, :-1], walk[:, -1]


if __name__ == "__main__":
    torch.manual_seed(9)
    history, tomorrow = closes(400, 15)
    body = Body(15)
    trend = nn.Parameter(torch.zeros(1))
    slow = [weight for weight in body.parameters() if weight.requires_grad]
    print(f"{sum(weight.numel() for weight in slow)} weights")
    groups = [dict(params=slow, lr=1e-3), dict(params=[trend], lr=1e-2)]
    optimizer = torch.optim.Adam(groups)
    for epoch in range(5):
        for rows in torch.randperm(400).split(40):
            loss = nn.functional.l1_loss(body(history[rows]) + trend, tomorrow[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} error {loss.item():.4f}")
