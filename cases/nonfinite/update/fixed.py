"""Autoencoder for spectra."""
import torch
from torch import nn


def spectra(n, bins=32, generator=None):
    peak = torch.rand(n, 1, generator=generator) * bins
    width = 1.5 + 2 * torch.rand(n, 1, generator=generator)
    return torch.exp(-((torch.arange(bins) - peak) / width) ** 2)


class AutoEncoder(nn.Module):
    def __init__(self, bins=32, code=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(bins, 24), nn.SiLU(), nn.Linear(24, code))
        self.dec = nn.Sequential(nn.Linear(code, 24), nn.SiLU(), nn.Linear(24, bins))

    def forward(self, x):
        return self.dec(self.enc(x))


torch.manual_seed(100)
gen = torch.Generator().manual_seed(2)
data = spectra(256, generator=gen)
model = AutoEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(3):
    order = torch.randperm(len(data), generator=gen)
    total = 0.0
    for rows in order.split(32):
        batch = data[rows]
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), batch)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: reconstruction error {total / 8:.5f}")
