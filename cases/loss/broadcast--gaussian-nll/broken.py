from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    in_dim: int = 4
    width: int = 32
    lr: float = 5e-3
    batch: int = 48
    epochs: int = 5
    seed: int = 11


class MeanVariance(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(cfg.in_dim, cfg.width), nn.SiLU())
        self.mu = nn.Linear(cfg.width, 1)
        self.raw_var = nn.Linear(cfg.width, 1)

    def forward(self, x):
        h = self.body(x)
        return self.mu(h), F.softplus(self.raw_var(h)) + 1e-4


cfg = Config()
torch.manual_seed(cfg.seed)

inputs = torch.randn(480, cfg.in_dim)
noise = 0.1 + 0.3 * torch.sigmoid(inputs[:, 1])      # heteroscedastic
targets = torch.sin(inputs[:, 0]) - 0.7 * inputs[:, 2] + noise * torch.randn(480)

net = MeanVariance(cfg)
opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr)

for epoch in range(cfg.epochs):
    running, seen = 0.0, 0
    for chunk in torch.randperm(len(inputs)).split(cfg.batch):
        mu, var = net(inputs[chunk])
        nll = F.gaussian_nll_loss(mu, targets[chunk], var)  # ORIGIN
        opt.zero_grad(set_to_none=True)
        nll.backward()
        opt.step()
        running += nll.item() * len(chunk)
        seen += len(chunk)
    print("epoch", epoch, "nll", round(running / seen, 4))
