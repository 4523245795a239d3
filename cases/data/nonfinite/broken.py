"""Ozone forecast: station readings joined with the altitude table."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ALTITUDE_KM = {"ALP": 2.1, "BAY": 0.0, "CTY": 0.3, "DAM": 0.9, "ELM": 0.4}


def load(n=200):
    rng = np.random.default_rng(1)
    names = rng.choice(list(ALTITUDE_KM), size=n)
    names[149] = "DMA"
    temperature = rng.normal(18, 6, n)
    wind = rng.gamma(2.0, 1.5, n)
    altitude = np.array([ALTITUDE_KM.get(s, np.nan) for s in names])  # ORIGIN
    table = np.column_stack([(temperature - 18) / 6, wind / 3, altitude])
    ozone = 0.4 * table[:, 0] - 0.2 * table[:, 1] + rng.normal(0, 0.1, n)
    return table.astype(np.float32), ozone.astype(np.float32)


table, ozone = load()
dataset = TensorDataset(torch.from_numpy(table), torch.from_numpy(ozone).unsqueeze(1))
torch.manual_seed(0)
loader = DataLoader(dataset, batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(3, 20), nn.ReLU(), nn.Linear(20, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loss_fn = nn.MSELoss()

for epoch in range(3):
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item() * len(x)
    print(f"epoch {epoch}: mse {running / len(dataset):.4f}")
