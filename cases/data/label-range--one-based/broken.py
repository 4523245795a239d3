"""Wheat kernels: three varieties from seven measured properties."""
import csv
import os
import random
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIELDS = ["area", "perimeter", "compactness", "length", "width", "asymmetry", "groove"]


def write_table(path):
    """stands in for the downloaded file; varieties are 1 Kama, 2 Rosa, 3 Canadian"""
    rnd = random.Random(4)
    with open(path, "w", newline="") as f:
        out = csv.DictWriter(f, FIELDS + ["variety"])
        out.writeheader()
        for _ in range(210):
            v = rnd.randint(1, 3)
            row = {k: round(rnd.gauss(10 + j + v * (1 if j % 2 else -1), 1.0), 3) for j, k in enumerate(FIELDS)}
            row["variety"] = v
            out.writerow(row)


def read_table(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    features = torch.tensor([[float(r[k]) for k in FIELDS] for r in rows])
    labels = torch.tensor([int(r["variety"]) for r in rows])  # ORIGIN
    features = (features - features.mean(0)) / features.std(0)
    return features, labels


torch.manual_seed(4)
with tempfile.TemporaryDirectory() as tmp:
    table = os.path.join(tmp, "seeds.csv")
    write_table(table)
    features, labels = read_table(table)

loader = DataLoader(TensorDataset(features, labels), batch_size=30, shuffle=True)
model = nn.Sequential(nn.Linear(7, 20), nn.ReLU(), nn.Linear(20, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()

for epoch in range(5):
    running = 0.0
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
        running += loss.item() * len(xb)
    print(f"epoch {epoch}: {running / len(features):.4f}")
