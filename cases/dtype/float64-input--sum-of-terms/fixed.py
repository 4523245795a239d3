"""Tides at a harbour, from three constituents and weather."""

import numpy as np
import torch
from torch import nn


def levels(hours):
    t = np.arange(hours)
    return (2.1 * np.cos(t / 1.98) + 0.7 * np.cos(t / 1.91) + np.random.default_rng(1).normal(0, 0.2, hours)).astype("float32")


def lagged(series, lags):
    return np.stack([series[k : len(series) - lags + k] for k in range(lags)], axis=1), series[lags:]


def train(past, after, epochs=3):
    net = nn.Sequential(nn.Linear(past.shape[1], 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(past)).split(50):
            loss = nn.functional.mse_loss(net(past[rows])[:, 0], after[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(1)
    past, after = lagged(levels(1000), 12)
    print(f"mse {train(torch.from_numpy(past), torch.from_numpy(after)):.4f}")
