from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass(frozen=True)
class Config:
    side: int = 8
    latent: int = 3
    hidden: int = 48
    batch_size: int = 32
    epochs: int = 6
    lr: float = 3e-3
    seed: int = 11


def bars(n: int, side: int) -> Tensor:
    """Binary pictures with one horizontal or vertical bar."""
    img = torch.zeros(n, side, side)
    which = torch.randint(0, side, (n,))
    flat = torch.rand(n) < 0.5
    rows = torch.arange(n)
    img[rows[flat], which[flat]] = 1.0
    img[rows[~flat], :, which[~flat]] = 1.0
    return img.flatten(1)


class VAE(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        d = cfg.side**2
        self.enc = nn.Sequential(nn.Linear(d, cfg.hidden), nn.GELU(), nn.Linear(cfg.hidden, 2 * cfg.latent))
        self.dec = nn.Sequential(nn.Linear(cfg.latent, cfg.hidden), nn.GELU(), nn.Linear(cfg.hidden, d))

    def posterior(self, x: Tensor) -> Normal:
        mu, raw = self.enc(x).chunk(2, dim=-1)
        return Normal(mu, F.softplus(raw) + 1e-4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q = self.posterior(x)
        logits = self.dec(q.rsample())
        prior = Normal(torch.zeros_like(q.loc), torch.ones_like(q.scale))
        rec = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1)
        kl = kl_divergence(q, prior).sum(1)
        return rec.mean(), kl.mean()


def run(cfg: Config) -> None:
    torch.manual_seed(cfg.seed)
    loader = DataLoader(TensorDataset(bars(500, cfg.side)), batch_size=cfg.batch_size, shuffle=True)
    model = VAE(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        beta = min(1.0, epoch / 3)  # KL annealing: the first epoch is a plain autoencoder
        total = 0.0
        for (x,) in loader:
            rec, kl = model(x)
            opt.zero_grad()
            (rec + beta * kl).backward()
            opt.step()
            total += (rec + kl).item() * len(x)
        print(f"epoch {epoch}  beta {beta:.2f}  -elbo {total / 500:.2f}")
    with torch.no_grad():
        print("ink in 4 dreams:", model.dec(torch.randn(4, cfg.latent)).sigmoid().sum(1).round().tolist())


run(Config())
