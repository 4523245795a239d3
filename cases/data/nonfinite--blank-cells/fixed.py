"""Tide gauges: the next reading from the last six. The table is read from the harbour's export."""
import numpy as np
import torch
from torch import nn


def harbour_export(hours=700):
    rng = np.random.default_rng(8)
    t = np.arange(hours)
    level = 2 + 1.4 * np.sin(t / 1.98) + rng.normal(0, 0.05, hours)
    wind = rng.gamma(2.0, 3.0, hours)
    # the wind gauge stood still, and the clerk left it out
    cells = ["" if 430 <= i < 433 else f"{each:.1f}" for i, each in enumerate(wind)]
    return ["level;wind;calm", *(f"{a:.3f};{b};{i % 9 // 8}" for i, (a, b) in enumerate(zip(level, cells)))]


def read_gauges(lines):
    raw = np.genfromtxt(lines[1:], delimiter=";")
    raw = np.where(np.isnan(raw), np.nanmedian(raw, axis=0), raw)
    mean, spread = np.nanmean(raw, axis=0), np.nanstd(raw, axis=0)
    calm = raw[:, 2:]
    return np.hstack([(raw[:, :2] - mean[:2]) / spread[:2], calm]).astype("float32")


def main():
    series = torch.from_numpy(read_gauges(harbour_export()))
    torch.manual_seed(8)
    net = nn.Sequential(nn.Flatten(), nn.Linear(18, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for start in range(0, 680, 20):
        windows = torch.stack([series[i : i + 6] for i in range(start, min(start + 20, 693))])
        loss = nn.functional.mse_loss(net(windows)[:, 0], series[start + 6 : start + 6 + len(windows), 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.4f}")


main()
