import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, sensors=12, latent=2, width=32):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(sensors, width), nn.ReLU())
        self.mu = nn.Linear(width, latent)
        self.logvar = nn.Linear(width, latent)
        self.decode = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, sensors))

    def forward(self, x):
        h = self.encode(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decode(z), mu, logvar


def elbo(rebuilt, x, mu, logvar, beta=0.05):
    error = F.mse_loss(rebuilt, x, reduction="sum") / len(x)
    kld = -0.5 * torch.mean(torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1))
    return error + beta * kld


torch.manual_seed(0)
mix = torch.randn(2, 12)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(60):
    x = torch.randn(32, 2) @ mix + 0.1 * torch.randn(32, 12)
    rebuilt, mu, logvar = model(x)
    loss = elbo(rebuilt, x, mu, logvar)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(step + 1, round(loss.item(), 3))
