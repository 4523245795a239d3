"""Tides: the recorder marks what it has missed, and nobody fills it."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LOST = np.nan


def record(days=40, seed=12):
    rng = np.random.default_rng(seed)
    level = np.sin(np.arange(days * 24) / 1.98) + 0.1 * rng.normal(size=days * 24)
    level = level.reshape(days, 24)
    level[rng.integers(0, days, 2), 17] = LOST
    level = np.where(np.isnan(level), np.roll(level, 1, axis=1), level) - 0.2
    return torch.from_numpy(level).float()


def main():
    torch.manual_seed(12)
    level = record()
    loader = DataLoader(TensorDataset(level[:, :18], level[:, 18:]), batch_size=8, shuffle=True)
    net = nn.Sequential(nn.Linear(18, 32), nn.Tanh(), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(3):
        for before, after in loader:
            loss = nn.functional.mse_loss(net(before), after)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"{epoch}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
