from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    features: int = 10
    latent: int = 3
    batch_size: int = 24
    epochs: int = 2
    lr: float = 2e-3


class Accounts(Dataset):
    """Monthly totals per account, in thousands."""

    def __init__(self, n, features):
        g = torch.Generator().manual_seed(40)
        mix = torch.randn(3, features, generator=g)
        self.rows = torch.randn(n, 3, generator=g) @ mix
        self.rows[201] *= 5000                       # the bank's own account

    def __len__(self):
        return self.rows.size(0)

    def __getitem__(self, index):
        return self.rows[index]


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(cfg.features, 32), nn.ReLU())
        self.to_mu = nn.Linear(32, cfg.latent)
        self.to_logvar = nn.Linear(32, cfg.latent)
        self.decode = nn.Sequential(nn.Linear(cfg.latent, 32), nn.ReLU(), nn.Linear(32, cfg.features))

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + std * torch.randn_like(std)

    def forward(self, x):
        h = self.trunk(x)
        mu, logvar = self.to_mu(h), self.to_logvar(h).clamp(-10, 10)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def elbo(recon, x, mu, logvar):
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return F.smooth_l1_loss(recon, x) + 1e-3 * kl


if __name__ == "__main__":
    cfg = Config()
    torch.manual_seed(2)
    vae = VAE(cfg)
    optimizer = torch.optim.Adam(vae.parameters(), lr=cfg.lr)
    loader = DataLoader(Accounts(240, cfg.features), batch_size=cfg.batch_size, shuffle=True)
    for epoch in range(cfg.epochs):
        for x in loader:
            optimizer.zero_grad()
            recon, mu, logvar = vae(x)
            loss = elbo(recon, x, mu, logvar)
            loss.backward()
            nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
            optimizer.step()
        print(f"epoch {epoch}  elbo {loss.item():.4f}")
