import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(21)
N = 480
log = pd.DataFrame(
    {
        "when": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.permutation(N), unit="h"),
        "load": rng.uniform(0, 1, N),
        "flow": rng.normal(3, 1, N),
        "valve": rng.integers(0, 2, N).astype(float),
    }
)
log["heat"] = 2.0 * log["load"] - 0.5 * log["flow"] + 0.7 * log["valve"] + rng.normal(0, 0.05, N)

target = log["heat"].to_numpy(np.float32)
log = log.sort_values("when")
target = log["heat"].to_numpy(np.float32)
readings = log.drop(columns=["when", "heat"])
inputs = readings.to_numpy(np.float32)
inputs = (inputs - inputs.mean(0)) / inputs.std(0)

cut = int(0.8 * N)
train_set = TensorDataset(torch.from_numpy(inputs[:cut]), torch.from_numpy(target[:cut]))
valid_set = TensorDataset(torch.from_numpy(inputs[cut:]), torch.from_numpy(target[cut:]))

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
loss_fn = nn.MSELoss()
for epoch in range(10):
    for x, y in DataLoader(train_set, batch_size=32, shuffle=True):
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
    with torch.no_grad():
        v = np.mean([loss_fn(model(x), y).item() for x, y in DataLoader(valid_set, batch_size=32)])
    print(f"{epoch:2d} train {loss.item():.3f} valid {v:.3f}")
