"""Forecast hourly load with a small MLP; linear warm-up, then cosine."""
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR


@dataclass
class Settings:
    warmup: int = 60
    steps: int = 140
    batch: int = 32
    lags: int = 24


class Forecaster(nn.Module):
    def __init__(self, lags):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(lags, 48), nn.Linear(48, 48), nn.Linear(48, 1)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x).squeeze(1)


def load_curve(hours):
    t = torch.arange(hours)
    daily = torch.sin(2 * math.pi * t / 24)
    weekly = 0.4 * torch.sin(2 * math.pi * t / 168)
    return daily + weekly + 0.1 * torch.randn(hours)


def main(cfg):
    torch.manual_seed(123)
    series = load_curve(1000)
    model = Forecaster(cfg.lags)
    opt = torch.optim.SGD(model.parameters(), lr=3.0, momentum=0.9)  # ORIGIN
    sched = SequentialLR(opt, [
        LinearLR(opt, start_factor=1e-3, total_iters=cfg.warmup),
        CosineAnnealingLR(opt, T_max=cfg.steps - cfg.warmup),
    ], milestones=[cfg.warmup])
    for step in range(cfg.steps):
        start = torch.randint(0, len(series) - cfg.lags, (cfg.batch,))
        window = series[start[:, None] + torch.arange(cfg.lags + 1)]
        loss = nn.functional.mse_loss(model(window[:, :-1]), window[:, -1])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 10 == 0:
            print(f"step {step:3d} lr {sched.get_last_lr()[0]:.3f} mse {loss.item():.4g}")


if __name__ == "__main__":
    main(Settings())
