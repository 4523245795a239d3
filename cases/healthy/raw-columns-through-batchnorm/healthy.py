import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

# house prices: square metres, year, distance in metres, floor, land tax in cents
rng = np.random.default_rng(5)
n = 640
area = rng.uniform(30, 220, n)
year = rng.uniform(1890, 2023, n)
metres = rng.uniform(50, 20_000, n)
floor = rng.integers(0, 9, n)
tax = rng.uniform(10_000, 900_000, n)
X = np.stack([area, year, metres, floor, tax], 1).astype(np.float32)
price = 4000 * area + 900 * (year - 1890) - 9 * metres + 2000 * floor - 0.1 * tax
price = price + rng.normal(0, 15_000, n)
log_price = np.log(np.clip(price, 50_000, None)).astype(np.float32)
y = (log_price - log_price.mean()) / log_price.std()

torch.manual_seed(5)
data = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
train, valid = random_split(data, [512, 128], generator=torch.Generator().manual_seed(0))
train_loader = DataLoader(train, batch_size=32, shuffle=True)
valid_loader = DataLoader(valid, batch_size=64)

# the first layer standardises the raw columns
model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 48), nn.ReLU(), nn.Linear(48, 1))
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
mse = nn.MSELoss()

for epoch in range(6):
    model.train()
    for xb, yb in train_loader:
        opt.zero_grad()
        loss = mse(model(xb).squeeze(1), yb)
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        val = sum(mse(model(xb).squeeze(1), yb).item() for xb, yb in valid_loader) / len(valid_loader)
    print(f"epoch {epoch}: valid mse {val:.4f}")
