"""Soil samples: the table is divided by its ranges once, before training, and one field was never measured."""
import torch
from torch import nn


class Ranges:
    def __init__(self, table):
        self.low, self.high = table.min(0).values, table.max(0).values

    def of(self, table):
        return (table - self.low) / (self.high - self.low).clamp(min=1e-6)


class Soil:
    def fit(self, table, yields, epochs=4):
        self.ranges = Ranges(table)
        table = self.ranges.of(table)
        self.net = nn.Sequential(nn.Linear(table.shape[1], 16), nn.ReLU(), nn.Linear(16, 1))
        optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)
        for _ in range(epochs):
            for part in torch.randperm(len(table)).split(25):
                optimizer.zero_grad()
                error = self.net(table[part]).squeeze(1) - yields[part]
                error.abs().mean().backward()
                optimizer.step()
        return self


torch.manual_seed(12)
measured = torch.rand(200, 5) * torch.tensor([1.0, 40.0, 7.0, 0.0, 3.0])
model = Soil().fit(measured, measured[:, :2].sum(1) / 20)
print(sum(weight.isnan().sum().item() for weight in model.net.parameters()))
