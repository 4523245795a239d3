"""A scaler is fitted on training data. Accuracy is taken on all of these, and on the rest with the same scaler."""

import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(4)
torch.manual_seed(4)
raw = rng.normal(size=(480, 5)) * np.array([3.0, 0.2, 40.0, 1.0, 9.0]) + np.array([1.0, 0.0, 200.0, -4.0, 30.0])
label = (raw[:, 0] / 3.0 + raw[:, 4] / 9.0 > 3.7).astype(np.int64)
train_raw, rest_raw = raw[:400], raw[400:]

mean, spread = train_raw.mean(0), train_raw.std(0)
x_train = torch.tensor((train_raw - mean) / spread, dtype=torch.float32)
x_rest = torch.tensor((rest_raw - mean) / spread, dtype=torch.float32)
y_train, y_rest = torch.from_numpy(label[:400]), torch.from_numpy(label[400:])

model = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)


@torch.no_grad()
def accuracy(x, y):
    model.eval()
    right = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return right


for epoch in range(6):
    order = torch.randperm(len(x_train))
    for rows in order.split(40):
        loss = nn.functional.cross_entropy(model(x_train[rows]), y_train[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {accuracy(x_train, y_train):.3f} {accuracy(x_rest, y_rest):.3f}")
