"""The tide of the next hour, from those of the last day: windows over one series, and a small convolution."""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HOURS = 24


def tides(count):
    hour = torch.arange(float(count))
    waves = torch.sin(2 * math.pi * hour / 12.42) + 0.3 * torch.sin(2 * math.pi * hour / 25.8)
    return waves + 0.1 * torch.randn(count)


def windows(series):
    past = series.unfold(0, HOURS, 1)
    coming = series[HOURS - 1 :]  # ORIGIN
    count = min(len(past), len(coming))
    return past[:count].unsqueeze(1), coming[:count]


torch.manual_seed(0)
loader = DataLoader(TensorDataset(*windows(tides(600))), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Conv1d(1, 8, 4, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(88, 1), nn.Flatten(0))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for past, coming in loader:
        loss = nn.functional.mse_loss(model(past), coming)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: {loss.item():.3f}")
