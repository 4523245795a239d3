"""A walker that is to stay near the middle, in episodes that are made longer as it learns: each keeps its log-probabilities for one
update."""

import torch
from torch import nn
from torch.distributions import Bernoulli


class Walker(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 256), nn.Tanh(), nn.Linear(256, 1))
        self.taken = []

    def act(self, state):
        choice = Bernoulli(logits=self.body(state))
        right = choice.sample()
        self.taken.append(choice.log_prob(right))
        return 2 * right - 1


def walk(walker, moments):
    place, speed = 0.5 * torch.randn(1), torch.zeros(1)
    before, gains = place.abs(), []
    for _ in range(moments):
        push = walker.act(torch.cat([place, speed]))
        speed = 0.5 * speed + 0.1 * push
        place = (place + speed).clamp(-2, 2)
        gains.append(before - place.abs())
        before = place.abs()
    return torch.cat(gains)


def learn(walker, optimizer, gains):
    worth = (gains - gains.mean()) / (gains.std() + 1e-6)
    optimizer.zero_grad()
    (-torch.cat(walker.taken) * worth).sum().backward()
    optimizer.step()
    walker.taken.clear()


torch.manual_seed(4)
walker = Walker()
optimizer = torch.optim.Adam(walker.parameters(), lr=3e-3)
for episode in range(30):
    gains = walk(walker, moments=10 + 3 * episode)
    learn(walker, optimizer, gains)
    if episode % 6 == 5:
        print(f"episode {episode + 1}: {gains.sum().item():+.3f} nearer to the middle")
