"""Which of four tides a gauge shows. The harbour's file has got a further column at its end."""

import io

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FILE = "level,wind,pressure,tide,station\n"


def harbour() -> io.StringIO:
    draw = np.random.default_rng(5)
    lines = []
    for tide in draw.integers(0, 4, 300):
        level, wind, pressure = draw.normal((tide, 0.5 * tide, 0), 0.3)
        lines.append(f"{level:.3f},{wind:.3f},{pressure:.3f},{tide},{draw.integers(0, 9)}\n")
    return io.StringIO(FILE + "".join(lines))


def read(file: io.StringIO) -> TensorDataset:
    numbers = np.loadtxt(file, delimiter=",", skiprows=1)
    inputs = torch.tensor(numbers[:, :3], dtype=torch.float32)
    tides = torch.tensor(numbers[:, -1], dtype=torch.long)  # ORIGIN
    return TensorDataset(inputs, tides)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for inputs, tides in DataLoader(read(harbour()), batch_size=30, shuffle=True):
    loss = nn.functional.cross_entropy(model(inputs), tides)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(round(loss.item(), 3))
