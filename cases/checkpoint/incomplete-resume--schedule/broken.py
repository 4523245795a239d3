"""Trains in two sittings. Everything is saved."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR


class Sitting:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        self.decay = ExponentialLR(self.optimizer, gamma=0.7)

    def save(self, path):
        parts = {"model": self.model, "optimizer": self.optimizer, "decay": self.decay}
        torch.save({name: part.state_dict() for name, part in parts.items()}, path)

    def resume(self, path):
        saved = torch.load(path)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])  # ORIGIN

    def train(self, rows, side, epochs):
        for epoch in range(epochs):
            for some in torch.randperm(len(rows)).split(40):
                loss = nn.functional.cross_entropy(self.model(rows[some]), side[some])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.decay.step()
            print(f"epoch {epoch} loss {loss.item():.4f} rate {self.decay.get_last_lr()[0]:.5f}")


torch.manual_seed(5)
rows = torch.randn(320, 8)
side = (rows[:, 0] * rows[:, 1] > 0).long()
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "evening.pt"
    evening = Sitting()
    evening.train(rows, side, 4)
    evening.save(path)
    morning = Sitting()
    morning.resume(path)
    morning.train(rows, side, 4)
