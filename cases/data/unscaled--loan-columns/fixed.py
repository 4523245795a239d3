import csv
import os
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def export(path, n=480):
    """stand-in for the nightly dump from the loan system"""
    r = np.random.default_rng(3)
    age = r.uniform(21, 75, n)
    income = r.lognormal(10.8, 0.5, n)
    amount = r.uniform(1_000, 400_000, n)
    ratio = r.uniform(0.05, 0.9, n)
    risk = (ratio - 0.45) * 5 + amount / 150_000 - income / 40_000 - (age - 45) / 40
    late = (risk + 0.3 * r.standard_normal(n) > -0.2).astype(int)
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["age", "income", "amount", "debt_ratio", "late"])
        for row in zip(age, income, amount, ratio, late):
            w.writerow([f"{v:.3f}" for v in row])


def load(path):
    x = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(4), dtype=np.float32)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = np.loadtxt(path, delimiter=",", skiprows=1, usecols=[4], dtype=np.float32)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


torch.manual_seed(1)
with tempfile.TemporaryDirectory() as tmp:
    dump = os.path.join(tmp, "loans.csv")
    export(dump)
    loans = load(dump)

model = torch.nn.Sequential(
    torch.nn.Linear(4, 24),
    torch.nn.Tanh(),
    torch.nn.Linear(24, 1),
)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(loans, batch_size=32, shuffle=True)

for epoch in range(5):
    losses, right = [], 0
    for x, y in loader:
        logit = model(x).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(logit, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        right += ((logit > 0) == (y > 0.5)).sum().item()
    print(epoch, round(sum(losses) / len(losses), 4), right / len(loans))
