"""How many bikes will be taken out? Counts of the stations, and by how much they have changed since the day before."""
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

COUNTS = ("taken", "brought")


def days(count, seed):
    rng = np.random.default_rng(seed)
    warm = 15 + 8 * np.sin(np.arange(count) / 20) + rng.normal(0, 1, count)
    taken = rng.poisson(20 + 3 * warm)
    return pd.DataFrame({"warm": warm, "taken": taken, "brought": taken + rng.integers(-6, 7, count)})


def with_changes(table):
    table = table.copy()
    for name in COUNTS:
        table[f"{name}_change"] = table[name].pct_change()  # ORIGIN
    table["tomorrow"] = table["taken"].shift(-1, fill_value=60)
    return table


class Days(Dataset):
    def __init__(self, table):
        self.table = table

    def __len__(self):
        return len(self.table)

    def __getitem__(self, number):
        day = self.table.iloc[number]
        seen = torch.tensor([day["warm"] / 10, day["taken"] / 100, day["taken_change"]], dtype=torch.float32)
        return seen, torch.tensor(day["tomorrow"] / 100, dtype=torch.float32)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
loader = DataLoader(Days(with_changes(days(400, 0))), batch_size=25, shuffle=True)
for epoch in range(3):
    errors = []
    for seen, tomorrow in loader:
        loss = nn.functional.mse_loss(net(seen).squeeze(1), tomorrow)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(loss.item())
    print(f"epoch {epoch}: {np.mean(errors):.4f}")
