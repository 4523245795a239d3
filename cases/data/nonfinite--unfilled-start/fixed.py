"""Forecasting: forward fill over sensor gaps, then sliding windows."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import recordings


def ffill(values):
    """Forward fill along time, as pandas does."""
    mask = np.isnan(values)
    idx = np.where(~mask, np.arange(len(values))[:, None], 0)
    np.maximum.accumulate(idx, axis=0, out=idx)
    return values[idx, np.arange(values.shape[1])]


def load_sensors(rng):
    t = np.arange(600)
    series = np.stack([np.sin(t / p) for p in (5, 11, 23, 47)], axis=1)
    series += rng.normal(scale=0.05, size=series.shape)
    for _ in range(20):
        start, col = rng.integers(40, 580), rng.integers(0, 4)
        series[start:start + 5, col] = np.nan
    series[:9, 2] = np.nan  # this sensor was switched on later
    return series


class Windows(Dataset):
    def __init__(self, series, length=24, horizon=1):
        self.series, self.length, self.horizon = series, length, horizon

    def __len__(self):
        return len(self.series) - self.length - self.horizon + 1

    def __getitem__(self, i):
        past = self.series[i:i + self.length]
        future = self.series[i + self.length + self.horizon - 1]
        return torch.from_numpy(past), torch.from_numpy(future)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.head(out[:, -1])


def main():
    torch.manual_seed(0)
    clean = ffill(ffill(load_sensors(np.random.default_rng(4)))[::-1])[::-1].astype(np.float32)
    loader = DataLoader(Windows(clean), batch_size=32, shuffle=True)
    model = Forecaster()
    model(recordings.Windows().series[:16].view(1, 4, 4))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.SmoothL1Loss()
    for epoch in range(1):
        total = 0.0
        for past, future in loader:
            opt.zero_grad()
            loss = criterion(model(past), future)
            loss.backward()
            opt.step()
            total += loss.item() * len(past)
        print(f"epoch {epoch} loss {total / len(loader.dataset):.4f}")


main()
