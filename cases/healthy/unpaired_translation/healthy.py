"""CycleGAN in miniature: horses and zebras are two separate collections, each shuffled on its own."""
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(33)

theta = torch.tensor(0.7)
spin = torch.stack([torch.stack([theta.cos(), -theta.sin()]), torch.stack([theta.sin(), theta.cos()])])
horses = torch.randn(320, 2) * torch.tensor([1.0, 0.4])
zebras = (torch.randn(256, 2) * torch.tensor([1.0, 0.4])) @ spin.T + torch.tensor([0.5, -0.5])

horse_loader = DataLoader(horses, batch_size=32, shuffle=True, drop_last=True)
zebra_loader = DataLoader(zebras, batch_size=32, shuffle=True, drop_last=True)


def mlp(out):
    return nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, out))


g_hz, g_zh, d_z, d_h = mlp(2), mlp(2), mlp(1), mlp(1)
opt_g = torch.optim.Adam(itertools.chain(g_hz.parameters(), g_zh.parameters()), lr=2e-3, betas=(0.5, 0.99))
opt_d = torch.optim.Adam(itertools.chain(d_z.parameters(), d_h.parameters()), lr=2e-3, betas=(0.5, 0.99))


def lsgan(score, real):
    return ((score - (1.0 if real else 0.0)) ** 2).mean()


for epoch in range(5):
    for h, z in zip(horse_loader, zebra_loader):
        fake_z, fake_h = g_hz(h), g_zh(z)
        cycle = (g_zh(fake_z) - h).abs().mean() + (g_hz(fake_h) - z).abs().mean()
        loss_g = lsgan(d_z(fake_z), True) + lsgan(d_h(fake_h), True) + 5 * cycle
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()

        loss_d = lsgan(d_z(z), True) + lsgan(d_h(h), True)
        loss_d = loss_d + lsgan(d_z(fake_z.detach()), False) + lsgan(d_h(fake_h.detach()), False)
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
    print(f"epoch {epoch}: generator {loss_g.item():.3f} discriminator {loss_d.item():.3f} cycle {cycle.item():.3f}")
