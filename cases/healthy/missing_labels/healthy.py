"""Joint regression of three lake chemistry values; what was not measured is NaN in the table and left out of the loss."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def lake_table(n=200, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)).astype(np.float32)
    y = (x @ rng.normal(size=(5, 3)) + 0.1 * rng.normal(size=(n, 3))).astype(np.float32)
    y[rng.random(y.shape) < 0.35] = np.nan
    y[17] = np.nan
    return torch.from_numpy(x), torch.from_numpy(y)


def masked_l2(pred, target):
    known = ~torch.isnan(target)
    return nn.functional.mse_loss(pred[known], target[known])


def column_errors(pred, target):
    return [(pred[:, c] - target[:, c])[~target[:, c].isnan()].abs().mean().item() for c in range(target.shape[1])]


torch.manual_seed(3)
x, y = lake_table()
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True, generator=torch.Generator().manual_seed(0))
net = nn.Sequential(nn.Linear(5, 32), nn.SiLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(8):
    for xb, yb in loader:
        opt.zero_grad()
        loss = masked_l2(net(xb), yb)
        loss.backward()
        opt.step()
    if epoch % 2 == 1:
        with torch.no_grad():
            print(f"epoch {epoch}", " ".join(f"{e:.3f}" for e in column_errors(net(x), y)))
