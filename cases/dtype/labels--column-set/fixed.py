"""Which of three shifts a machine was run in, from its readings."""

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

READINGS = ["current", "vibration"]


def read():
    rng = np.random.default_rng(5)
    shift = rng.integers(0, 3, 240)
    readings = shift[:, None] + 0.5 * rng.normal(size=(240, 2))
    return pd.DataFrame({"current": readings[:, 0], "vibration": readings[:, 1], "shift": shift})


def prepare(table):
    table = table.dropna()
    for name in READINGS:
        table[name] = (table[name] - table[name].mean()) / table[name].std()
    table["shift"] = table["shift"].astype("int64")
    return table


def loader(table):
    inputs = torch.tensor(table[READINGS].to_numpy("float32"))
    shifts = torch.tensor(table["shift"].to_numpy())
    return DataLoader(TensorDataset(inputs, shifts), batch_size=40, shuffle=True)


torch.manual_seed(1)
model = nn.Linear(2, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
criterion = nn.CrossEntropyLoss()
for epoch in range(5):
    for readings, shift in loader(prepare(read())):
        optimizer.zero_grad()
        loss = criterion(model(readings), shift)
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
