import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(2)
n = 500
station = rng.normal(0, 1, (n, 6)).astype(np.float32)
truth = station @ np.array([0.5, -0.2, 0.8, 0.1, -0.6, 0.3], dtype=np.float32)
broken = rng.choice(n, 12, replace=False)
# what the logger writes when the probe is off
station[broken, 2] = -9999.0

x = torch.from_numpy(np.where(station == -9999.0, 0.0, station).astype(np.float32))
y = torch.from_numpy(truth)
torch.manual_seed(0)
dl = DataLoader(TensorDataset(x, y), batch_size=25, shuffle=True)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), 3e-3)
for epoch in range(8):
    tot = 0.0
    for xb, yb in dl:
        loss = nn.functional.mse_loss(net(xb).squeeze(1), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
    print(f"{epoch}: {tot / len(dl):.2f}")
