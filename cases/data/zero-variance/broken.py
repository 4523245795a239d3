"""Churn model on min-max scaled usage counters."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

COLUMNS = ["calls", "messages", "data_gb", "roaming_min", "support_tickets"]


def read_usage(n, rng):
    usage = np.stack([
        rng.poisson(40, n),
        rng.poisson(120, n),
        rng.gamma(2.0, 3.0, n),
        np.zeros(n),
        rng.poisson(0.6, n),
    ], axis=1)
    churned = (usage[:, 4] + rng.normal(0, 0.4, n) > 1).astype(np.int64)
    return usage, churned


def min_max(table):
    low, high = table.min(axis=0), table.max(axis=0)
    return (table - low) / (high - low)  # ORIGIN


def train(x, y, epochs=3, lr=0.05):
    torch.manual_seed(0)
    dataset = TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))
    loader = DataLoader(dataset, batch_size=25, shuffle=True)
    clf = nn.Sequential(nn.Linear(x.shape[1], 12), nn.ReLU(), nn.Linear(12, 2))
    opt = torch.optim.SGD(clf.parameters(), lr=lr)
    for epoch in range(epochs):
        total = 0.0
        for xb, yb in loader:
            loss = nn.functional.cross_entropy(clf(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}")
    return clf


usage, churned = read_usage(250, np.random.default_rng(17))
print("columns:", ", ".join(COLUMNS))
model = train(min_max(usage), churned)
