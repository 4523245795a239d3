"""Fit a small regressor on sensor readings."""
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)

n_samples, n_sensors = 256, 8
readings = rng.normal(size=(n_samples, n_sensors))  # ORIGIN
true_w = rng.normal(size=n_sensors)
demand = readings @ true_w + 0.1 * rng.normal(size=n_samples)

X = torch.from_numpy(readings)
y = torch.from_numpy(demand.astype("float32")).unsqueeze(1)

model = nn.Sequential(
    nn.Linear(n_sensors, 32),
    nn.ReLU(),
    nn.Linear(32, 1),
)
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

batch_size = 64
for epoch in range(5):
    order = torch.randperm(n_samples)
    total = 0.0
    for start in range(0, n_samples, batch_size):
        idx = order[start:start + batch_size]
        optimizer.zero_grad()
        pred = model(X[idx])
        loss = criterion(pred, y[idx])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    print(f"epoch {epoch}  mse {total / n_samples:.4f}")
