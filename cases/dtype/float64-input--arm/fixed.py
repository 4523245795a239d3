"""Two ways to scale the columns of a table."""

import numpy as np
import torch
from torch import nn


def prepared(raw: np.ndarray, how: str) -> torch.Tensor:
    if how == "range":
        table = raw / np.array([4.0, 2.0, 1.0, 8.0], dtype="float32")
    else:
        table = (raw - raw.mean(0)) / raw.std(0)
    return torch.from_numpy(table)


torch.manual_seed(0)
raw = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs = prepared(raw, "range")
loss = nn.functional.cross_entropy(model(inputs), torch.arange(64) % 2)
optimizer.zero_grad()
loss.backward()
optimizer.step()
print(inputs.shape)
