"""A job that may be stopped at any time, and goes on from its last checkpoint."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR


class Job:
    def __init__(self, path, epochs):
        torch.manual_seed(0)
        self.path, self.epochs, self.epoch = path, epochs, 0
        self.model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-3)
        self.schedule = CosineAnnealingLR(self.optimizer, T_max=epochs)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=15)

    def save(self):
        parts = {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule, "scaler": self.scaler}
        torch.save({name: part.state_dict() for name, part in parts.items()} | {"epoch": self.epoch}, self.path)

    def resume(self):
        saved = torch.load(self.path)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.schedule.load_state_dict(saved["schedule"])
        self.scaler.load_state_dict(saved["scaler"])
        self.epoch = saved["epoch"]

    def run(self, until):
        if self.path.exists():
            self.resume()
        while self.epoch < until:
            for _ in range(12):
                x = torch.randn(64, 12)
                loss = nn.functional.mse_loss(self.model(x), x[:, :1] * x[:, 1:2])
                self.optimizer.zero_grad()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optimizer)
                self.scaler.update()
            self.schedule.step()
            self.epoch += 1
            self.save()
            print(f"epoch {self.epoch} loss {loss.item():.4f} rate {self.schedule.get_last_lr()[0]:.2e}")


with tempfile.TemporaryDirectory() as folder:
    last = Path(folder) / "last.pt"
    Job(last, epochs=8).run(until=4)
    Job(last, epochs=8).run(until=8)
