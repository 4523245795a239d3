"""A variational autoencoder with a prior of zeros and ones, all latent means below one at first."""

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 6))
        self.decoder = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 16))

    def bound(self, x: torch.Tensor) -> torch.Tensor:
        mean, spread = self.encoder(x).chunk(2, dim=-1)
        posterior = Normal(mean, spread.exp())
        seen = -(self.decoder(posterior.rsample()) - x).pow(2).sum(-1)
        return (seen - kl_divergence(posterior, Normal(torch.zeros_like(mean), 1.0)).sum(-1)).mean()


torch.manual_seed(0)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
basis = torch.randn(3, 16)
for step in range(24):
    loss = -model.bound(torch.tanh(torch.randn(64, 3) @ basis))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(round(loss.item(), 2))
