import csv
import io

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RNG = np.random.default_rng(70)


def manifest(n=300):
    """house features with a split column, as the data team exports it"""
    out = io.StringIO()
    w = csv.writer(out)
    w.writerow(["rooms", "age", "distance", "price", "split"])
    for i in range(n):
        rooms, age, dist = RNG.normal(size=3)
        price = 0.7 * rooms - 0.3 * age - 0.5 * dist + 0.1 * RNG.normal()
        w.writerow([f"{rooms:.3f}", f"{age:.3f}", f"{dist:.3f}", f"{price:.3f}", "val" if i % 5 == 0 else "train"])
    return out.getvalue()


class Houses(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        r = self.rows[i]
        x = np.array([r["rooms"], r["age"], r["distance"]], dtype=np.float32)
        return x, np.float32(r["price"])


rows = list(csv.DictReader(io.StringIO(manifest())))
train_rows = [r for r in rows if r["split"] == "train"]
valid_rows = [r for r in rows if r["split"] == "valid"]  # ORIGIN
train_loader = DataLoader(Houses(train_rows), batch_size=24, shuffle=True)
valid_loader = DataLoader(Houses(valid_rows), batch_size=24)

torch.manual_seed(70)
model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1), nn.Flatten(0))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
best = float("inf")
for epoch in range(5):
    model.train()
    for x, price in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), price)
        loss.backward()
        optimizer.step()
    model.eval()
    squared = 0.0
    with torch.no_grad():
        for x, price in valid_loader:
            squared += ((model(x) - price) ** 2).sum().item()
    best = min(best, squared)
    print(f"epoch {epoch}: train {loss.item():.4f}  valid {squared:.4f}  best {best:.4f}")
