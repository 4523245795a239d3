"""Dry run of a GAN generator step on an accelerator device."""
import argparse

import torch
from torch import nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="meta")
parser.add_argument("--latent", type=int, default=8)
parser.add_argument("--steps", type=int, default=6)
args = parser.parse_args()
device = torch.device(args.device)

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(args.latent, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2)).to(device)
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(device)
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)


def real_points(n):
    angle = torch.rand(n, device=device) * 6.283
    return torch.stack([angle.cos(), angle.sin()], dim=1)


def noise(n):
    return torch.randn(n, args.latent, device=device)


def critic_step(n=32):
    fake = generator(noise(n)).detach()
    loss = F.softplus(-critic(real_points(n))).mean() + F.softplus(critic(fake)).mean()
    opt_c.zero_grad()
    loss.backward()
    opt_c.step()


def generator_step(n=32):
    loss = F.softplus(-critic(generator(noise(n)))).mean()
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()


for step in range(args.steps):
    critic_step()
    generator_step()
print("ran", args.steps, "steps on", device)
