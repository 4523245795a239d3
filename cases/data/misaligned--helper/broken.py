import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from preparing import Scaler, shuffle_and_split


def spectra(count, width, seed):
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, count)
    lines = np.linspace(0, 1, width)
    centres = np.array([0.25, 0.5, 0.75])[classes][:, None] + 0.03 * rng.normal(size=(count, 1))
    return np.exp(-(((lines - centres) / 0.08) ** 2)) + 0.1 * rng.normal(size=(count, width)), classes


def epoch(net, optimizer, x, y, batch=64):
    for rows in torch.randperm(len(x)).split(batch):
        loss = F.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    torch.manual_seed(4)
    x, y = spectra(900, 40, seed=2)
    (xa, ya), (xb, yb) = shuffle_and_split(x, y)
    scale = Scaler(xa)
    xa, xb = torch.from_numpy(scale(xa)), torch.from_numpy(scale(xb))
    ya, yb = torch.from_numpy(ya), torch.from_numpy(yb)
    net = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(4):
        epoch(net, optimizer, xa, ya)
    with torch.no_grad():
        print("accuracy", (net(xb).argmax(1) == yb).float().mean().item())


main()
