"""Prices of flats: trained on the years before a boom, tested on the years in it. The prices are prepared alike, as logarithms,
and those of the boom are higher, wider and lean to the expensive side."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(20)


def flats(count, level, spread, lean):
    size = rng.uniform(25, 160, count)
    price = size * np.exp(level + spread * rng.normal(size=count) + lean * rng.exponential(1.0, count))
    sold = (np.log(price) - np.log(size) < level + 0.2 + 0.3 * rng.normal(size=count)).astype(np.int64)
    return np.stack([np.log(price), np.log(size), rng.uniform(0, 1, count)], 1), sold


def loader(table, sold, mean, spread, **options):
    table = torch.tensor((table - mean) / spread, dtype=torch.float32)
    return DataLoader(TensorDataset(table, torch.from_numpy(sold)), **options)


torch.manual_seed(20)
before, boom = flats(900, 7.4, 0.2, 0.05), flats(300, 7.8, 0.3, 0.35)
mean, spread = before[0].mean(0), before[0].std(0)
train = loader(*before, mean, spread, batch_size=45, shuffle=True)
test = loader(*boom, mean, spread, batch_size=150)
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(3):
    net.train()
    for rows, sold in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(rows), sold).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        right = sum((net(rows).argmax(1) == sold).sum().item() for rows, sold in test)
    print(f"epoch {epoch}: {right / 300:.2f} right in the boom")
