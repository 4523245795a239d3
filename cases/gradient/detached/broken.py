import numpy as np
import torch
import torch.nn as nn


class CountModel(nn.Module):
    """Encoder -> compressed non-negative features -> regression head."""

    def __init__(self, n_in=8, n_feat=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, n_feat), nn.Softplus())
        self.head = nn.Linear(n_feat, 1)

    def forward(self, x):
        z = self.encoder(x)
        z = torch.from_numpy(np.log1p(z.detach().numpy()))  # ORIGIN
        return self.head(z).squeeze(-1)


def batches(n_batches, rng):
    for _ in range(n_batches):
        x = rng.standard_normal((32, 8), dtype=np.float32)
        y = np.abs(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.05 * rng.standard_normal(32, dtype=np.float32)
        yield torch.from_numpy(x), torch.from_numpy(y)


torch.manual_seed(30)
model = CountModel()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
loss_fn = nn.SmoothL1Loss()
window = []
for i, (x, y) in enumerate(batches(60, np.random.default_rng(30)), start=1):
    opt.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    opt.step()
    window.append(loss.item())
    if i % 12 == 0:
        print(f"{i:4d} {np.mean(window[-12:]):.4f}")
