"""Buoy measurements with gaps. NaN marks a gap in the file; the stream fills it and says so in a second channel."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

rng = np.random.default_rng(4)
hours = np.arange(1500)
wave = np.stack(
    [np.sin(hours / 7), np.cos(hours / 11), np.sin(hours / 7 + 1) * np.cos(hours / 23)], axis=1
) + 0.1 * rng.standard_normal((1500, 3))
truth = (wave[:, 0] + 0.5 * wave[:, 2]).astype(np.float32)
table = wave.astype(np.float32)
table[rng.random(table.shape) < 0.08] = np.nan
truth[rng.random(1500) < 0.05] = np.nan  # hours without a reference reading

mean = np.nanmean(table, axis=0)
std = np.nanstd(table, axis=0)


class BuoyHours(IterableDataset):
    def __iter__(self):
        for h in torch.randperm(len(table)).tolist():
            if np.isnan(truth[h]):
                continue
            row = table[h]
            gap = np.isnan(row)
            filled = np.where(gap, 0.0, (row - mean) / std)
            yield np.concatenate([filled, gap]).astype(np.float32), truth[h]


torch.manual_seed(4)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
loader = DataLoader(BuoyHours(), batch_size=50)
for epoch in range(3):
    losses = []
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x)[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print(f"epoch {epoch}: mse {np.mean(losses):.4f}")
