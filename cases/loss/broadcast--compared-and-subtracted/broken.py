"""Delivery times, over-promising costs more than under-promising; the share of late promises is printed."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Settings:
    early: float = 1.0
    late: float = 3.0
    parcels: int = 640
    batch: int = 64
    epochs: int = 4


def asymmetric(promise, actual, cfg: Settings):
    price = torch.where(promise < actual, cfg.late, cfg.early)
    return price.mul((promise - actual).abs()).mean()  # ORIGIN


def parcels(cfg):
    route = torch.rand(cfg.parcels, 5)
    hours = 2.0 * route[:, 0] + route[:, 1] * route[:, 2] + 0.1 * torch.randn(cfg.parcels)
    return route, (hours - hours.mean()) / hours.std()


def main(cfg=Settings()):
    torch.manual_seed(11)
    route, hours = parcels(cfg)
    clerk = nn.Sequential(nn.Linear(5, 24), nn.SiLU(), nn.Linear(24, 1))
    ledger = torch.optim.AdamW(clerk.parameters(), lr=5e-3)
    for epoch in range(cfg.epochs):
        total = 0.0
        for rows in torch.randperm(cfg.parcels).split(cfg.batch):
            cost = asymmetric(clerk(route[rows]), hours[rows], cfg)
            ledger.zero_grad()
            cost.backward()
            ledger.step()
            total += cost.item()
        print(epoch, round(total, 2))


if __name__ == "__main__":
    main()
