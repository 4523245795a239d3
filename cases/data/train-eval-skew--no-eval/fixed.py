"""Strength of concrete from its recipe: fitted to what the old plant poured, tried on what the new one pours."""

import numpy as np
import torch
from torch import nn


class Scaler:
    """Columns to mean zero and spread one."""

    def fit(self, table):
        self.mean, self.spread = table.mean(axis=0), table.std(axis=0)
        return self

    def transform(self, table):
        return (table - self.mean) / self.spread

    def fit_transform(self, table):
        return self.fit(table).transform(table)


def recipes(rng, count, plant):
    if plant == "old":
        cement, water = rng.uniform(150, 500, count), rng.uniform(140, 240, count)
        ash, days = rng.uniform(0, 160, count), rng.uniform(3, 90, count)
    else:
        cement, water = rng.uniform(330, 480, count), rng.uniform(145, 185, count)
        ash, days = rng.uniform(60, 150, count), rng.uniform(3, 30, count)
    strength = 22 * (cement + 0.4 * ash) / water - 12 + 6 * np.log(days) + rng.normal(0, 2, count)
    return np.column_stack([cement, water, ash, days]), strength


def as_tensor(table):
    return torch.tensor(table, dtype=torch.float32)


rng = np.random.default_rng(30)
torch.manual_seed(30)
train_table, train_strength = recipes(rng, 600, "old")
valid_table, valid_strength = recipes(rng, 160, "new")

scaler = Scaler()
x_train = as_tensor(scaler.fit_transform(train_table))
x_valid = as_tensor(scaler.transform(valid_table))
y_train, y_valid = as_tensor(train_strength)[:, None] / 10, as_tensor(valid_strength)[:, None] / 10

model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(12):
    for rows in torch.randperm(len(x_train)).split(50):
        loss = nn.functional.mse_loss(model(x_train[rows]), y_train[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        off = (model(x_valid) - y_valid).abs().mean().item()
    print(f"epoch {epoch:2d}: train {loss.item():.3f}, validation off by {10 * off:.1f} MPa")
