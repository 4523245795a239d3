"""Tomorrow's step of a price from the eight before. A day without trade is a price of 0 in the file."""
import numpy as np
import torch
from torch import nn


def steps_of(prices):
    prices = np.where(prices > 0, prices, 100.0)
    steps = np.log(prices[1:] / prices[:-1])
    return np.float32(100 * steps)


def batches(prices, size):
    windows, next_steps = [], []
    for share in steps_of(prices).T:
        for day in range(len(share) - 8):
            windows.append(share[day : day + 8])
            next_steps.append(share[day + 8])
            if len(windows) == size:
                yield torch.from_numpy(np.stack(windows)), torch.tensor(next_steps)
                windows, next_steps = [], []


rng = np.random.default_rng(1)
prices = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (120, 6)), axis=0))
prices[70, 4] = 0.0
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for window, step in batches(prices, 24):
    loss = nn.functional.huber_loss(net(window).squeeze(1), step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
