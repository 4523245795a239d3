"""Spectra of stars, brought to one grid: is it a giant or a dwarf?"""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

BINS = 96
rng = np.random.default_rng(5)


def observe(giant):
    """Every instrument has a grid of its own."""
    grid = np.linspace(0, 1, int(rng.integers(180, 320)))
    lines = np.exp(-(((grid - 0.4) / (0.02 + 0.04 * giant)) ** 2))
    return (1 - 0.7 * lines + 0.05 * rng.standard_normal(len(grid))).astype(np.float32)


def rebinned(flux, bins=BINS):
    at = np.linspace(0, len(flux) - 1, bins)
    return np.interp(at, np.arange(len(flux)), flux).astype(np.float32)


def shifted(flux, velocity):
    """The far end of the spectrum leaves the detector when a star moves away."""
    lost = max(0, int(round(velocity * len(flux))))
    return flux[: len(flux) - lost]


class Survey:
    def __init__(self, count, moving):
        self.giants = rng.integers(0, 2, count)
        self.fluxes = [observe(each) for each in self.giants]
        self.moving = moving

    def __len__(self):
        return len(self.fluxes)

    def __getitem__(self, star):
        flux = self.fluxes[star]
        if self.moving:
            flux = shifted(flux, rng.normal(-0.03, 0.02))
        flux = rebinned(flux)
        return {"flux": flux[None].copy(), "giant": int(self.giants[star])}


torch.manual_seed(5)
net = nn.Sequential(nn.Conv1d(1, 8, 7, stride=3), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
survey = Survey(96, moving=True)
for epoch in range(4):
    for batch in DataLoader(survey, batch_size=12, shuffle=True):
        loss = nn.functional.cross_entropy(net(batch["flux"]), batch["giant"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 3))
