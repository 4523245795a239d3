"""GAN that imitates (basket value, delivery fee), losses written out as in the 2014 paper."""
import torch
from torch import nn

torch.manual_seed(9)
Z = 8


def mlp(n_in, n_out, width=48):
    return nn.Sequential(nn.Linear(n_in, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, n_out))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(2, 1)

    def forward(self, x):
        return torch.sigmoid(self.net(x)).squeeze(1)


def orders(n):
    basket = torch.exp(2.0 + 0.4 * torch.randn(n))
    fee = 1 + 0.05 * basket + 0.3 * torch.rand(n)
    return torch.stack([basket, fee], 1)


def log(p):
    return torch.log(p).clamp(min=-100)  # ORIGIN


def bce(p, t):
    return -(t * log(p) + (1 - t) * log(1 - p)).mean()


G, D = mlp(Z, 2), Discriminator()
g_opt = torch.optim.Adam(G.parameters(), lr=5e-4, betas=(0.5, 0.999))
d_opt = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.999))

ones, zeros = torch.ones(64), torch.zeros(64)
for it in range(120):
    real, fake = orders(64), G(torch.randn(64, Z))
    d_loss = bce(D(real), ones) + bce(D(fake.detach()), zeros)
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()

    g_loss = bce(D(G(torch.randn(64, Z))), ones)
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    if it % 20 == 0:
        print(f"{it:4d}  D {d_loss.item():.3f}  G {g_loss.item():.3f}")

with torch.no_grad():
    print("mean generated order", G(torch.randn(256, Z)).mean(0).tolist())
