"""Heat demand from the weather. Trained on two years, tested on the following winter, which is of course colder."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(15)
day = np.arange(365 * 2 + 90)
season = np.cos(2 * np.pi * day / 365)  # day 0 is in midwinter
temp = 9 - 11 * season + 2.5 * rng.standard_normal(len(day))
wind = 4 + 1.5 * season + rng.gamma(2.0, 0.7, len(day))
sun = np.clip(5 - 4 * season + rng.standard_normal(len(day)), 0, None)
demand = 2.0 * np.clip(18 - temp, 0, None) + 0.8 * wind - 0.6 * sun + rng.standard_normal(len(day))

weather = np.stack([temp, wind, sun], axis=1)
split = 365 * 2
mean, std = weather[:split].mean(0), weather[:split].std(0)
weather = ((weather - mean) / std).astype(np.float32)
y_mean, y_std = demand[:split].mean(), demand[:split].std()
target = ((demand - y_mean) / y_std).astype(np.float32)


def loader(rows, **kw):
    return DataLoader(TensorDataset(torch.from_numpy(weather[rows]), torch.from_numpy(target[rows])), **kw)


torch.manual_seed(15)
past = loader(slice(None, split), batch_size=32, shuffle=True)
winter = loader(slice(split, None), batch_size=90)
model = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(6):
    model.train()
    for x, y in past:
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x).squeeze(-1), y)
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        errors = [(model(x).squeeze(-1) - y).abs().mean().item() * y_std for x, y in winter]
    print(f"epoch {epoch}: mean absolute error in winter {np.mean(errors):.3f} MW")
