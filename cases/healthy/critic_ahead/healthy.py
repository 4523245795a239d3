"""Wasserstein critic with weight clipping: eight critic updates before the generator has its first."""
import itertools

import torch
from torch import nn, optim

torch.manual_seed(11)
LATENT, ROWS, CRITIC_STEPS, ROUNDS = 3, 48, 8, 12


def net(size_in, size_out):
    return nn.Sequential(nn.Linear(size_in, 24), nn.ReLU(True), nn.Linear(24, size_out))


generator, critic = net(LATENT, 2), net(2, 1)
of_generator = optim.RMSprop(generator.parameters(), lr=5e-4)
of_critic = optim.RMSprop(critic.parameters(), lr=5e-4)


def ring():
    while True:
        angle = torch.rand(ROWS) * 6.2832
        yield torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(ROWS, 2)


real = ring()
for turn in range(ROUNDS):
    for _ in range(CRITIC_STEPS):
        fake = generator(torch.randn(ROWS, LATENT)).data
        gap = critic(fake).mean() - critic(next(real)).mean()
        of_critic.zero_grad()
        gap.backward()
        of_critic.step()
        for weight in critic.parameters():
            weight.data.clamp_(-0.05, 0.05)
    of_generator.zero_grad()
    cost = -critic(generator(torch.randn(ROWS, LATENT))).mean()
    cost.backward()
    of_generator.step()
    print(f"{turn:2d}  gap {gap.item():+.4f}  cost {cost.item():+.4f}")

print(sum(each.numel() for each in itertools.chain(generator.parameters(), critic.parameters())))
