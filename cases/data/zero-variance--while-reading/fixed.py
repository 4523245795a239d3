"""Is the milk still good? Readings are brought to one scale one by one, as they are asked for."""
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
raw = rng.normal(size=(600, 3)).astype("float32")
raw[:, 1] = 4.0  # the fridge keeps its four degrees
is_good = (raw[:, 0] > 0).astype("int64")
centre, scale = raw.mean(axis=0), np.maximum(raw.std(axis=0), 1e-6)


def on_one_scale(rows):
    for row, good in rows:
        with np.errstate(invalid="ignore"):
            yield (row - centre) / scale, good


def grouped(rows, size):
    readings, answers = [], []
    for reading, good in rows:
        readings.append(torch.from_numpy(reading))
        answers.append(int(good))
        if len(readings) == size:
            yield torch.stack(readings), torch.tensor(answers)
            readings, answers = [], []


torch.manual_seed(0)
judge = nn.Linear(3, 2)
optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)
for reading, good in grouped(on_one_scale(zip(raw, is_good)), 30):
    loss = nn.functional.cross_entropy(judge(reading), good)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
