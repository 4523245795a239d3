"""A small GAN. What the generator made for the critic's step is used again for its own."""

import torch
from torch import nn


class Players:
    def __init__(self):
        self.generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
        self.critic = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
        self.of_generator = torch.optim.Adam(self.generator.parameters(), lr=1e-3)
        self.of_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def turn(self, real):
        fake = self.generator(torch.randn(len(real), 4))
        loss = nn.functional.softplus(-self.critic(real)).mean() + nn.functional.softplus(self.critic(fake.detach())).mean()
        self.of_critic.zero_grad()
        loss.backward()
        self.of_critic.step()
        fooled = nn.functional.softplus(-self.critic(fake)).mean()
        self.of_generator.zero_grad()
        fooled.backward()
        self.of_generator.step()
        return loss.item(), fooled.item()


torch.manual_seed(1)
points = torch.randn(512, 2) * 0.1 + torch.tensor([1.0, -1.0])
players = Players()
for _epoch in range(3):
    for real in points.split(32):
        losses = players.turn(real)
print("%.3f %.3f" % losses)
