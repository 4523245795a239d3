"""How long a parcel takes, from its weight and the way it has to go: settings in one place, a trainer, batches that are moved to the device."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Settings:
    width: int = 16
    rate: float = 1e-2
    device: str = "cuda:0" if torch.cuda.is_available() else "cpu"


class Trainer:
    def __init__(self, settings):
        self.device = torch.device(settings.device)
        layers = nn.Linear(2, settings.width), nn.ReLU(), nn.Linear(settings.width, 1), nn.Flatten(0)
        self.model = nn.Sequential(*layers).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=settings.rate)

    def step(self, parcels, days):
        parcels, days = parcels.to(self.device), days.to(self.device)
        loss = nn.functional.l1_loss(self.model(parcels), days)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
trainer = Trainer(Settings())
for step in range(60):
    parcels = torch.rand(32, 2)
    loss = trainer.step(parcels, 1 + 2 * parcels[:, 1] + parcels.prod(1))
    if step % 20 == 19:
        print(f"step {step + 1}: {loss:.2f} days off")
