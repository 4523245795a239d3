"""Churn model: usage records joined with the plan table."""
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def tables(seed=8):
    g = np.random.default_rng(seed)
    n = 450
    usage = pd.DataFrame({"customer": np.arange(1000, 1000 + n), "plan": g.choice(["pro", "basic", "team"], n), "minutes": g.gamma(3, 40, n), "calls": g.poisson(4, n)})
    plans = pd.DataFrame({"plan": ["basic", "pro", "team"], "price": [9.0, 29.0, 79.0], "seats": [1, 1, 8]})
    risk = 1.5 * (usage.minutes < 110) + 0.4 * (usage.calls < 3) + (usage.plan == "basic") * 0.8
    churned = (risk + g.normal(0, 0.2, n) > 1.4).astype("int64")
    return usage, plans, churned


def build():
    usage, plans, churned = tables()
    joined = usage.merge(plans, on="plan", how="left")
    feats = joined[["minutes", "calls", "price", "seats"]]
    feats = (feats - feats.mean()) / feats.std()
    return TensorDataset(torch.tensor(feats.values, dtype=torch.float32), torch.tensor(churned.values))


def run():
    torch.manual_seed(3)
    train, held = random_split(build(), [360, 90])
    net = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(12):
        net.train()
        for x, y in DataLoader(train, 30, shuffle=True):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            ok = sum((net(x).argmax(1) == y).sum().item() for x, y in DataLoader(held, 30))
        print(f"epoch {epoch} held-out accuracy {ok / 90:.2f}")


if __name__ == "__main__":
    run()
