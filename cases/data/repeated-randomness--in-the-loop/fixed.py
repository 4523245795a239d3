"""Denoise the readings of a scale: noise is added while training, and the net is to take it away again."""
import argparse

import torch
from torch import nn


def seed_everything(number):
    torch.manual_seed(number)


def noisy(batch, options):
    level = torch.rand(len(batch), 1)
    return batch + level * torch.randn_like(batch)


def curves(count):
    time = torch.linspace(0, 1, 24)
    rise = 2 + 6 * torch.rand(count, 1)
    return 1 - torch.exp(-rise * time)


def fit(options):
    data = curves(512)
    net = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 24))
    optimizer = torch.optim.Adam(net.parameters(), lr=options.rate)
    step, order = 0, torch.randperm(len(data), generator=torch.Generator().manual_seed(1))
    while step < options.steps:
        for rows in order.split(32):
            clean = data[rows]
            loss = (net(noisy(clean, options)) - clean).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        print(f"step {step}: {loss.item():.4f}")


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=5)
parser.add_argument("--steps", type=int, default=64)
parser.add_argument("--rate", type=float, default=2e-3)
chosen = parser.parse_args([])
seed_everything(chosen.seed)
fit(chosen)
