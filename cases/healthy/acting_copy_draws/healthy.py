"""Vents of a greenhouse: an actor decides with the learner's own memory, so that nothing has to be sent over to it."""

import torch
from torch import nn
from torch.distributions import Categorical

VENTS = 3


def policy():
    return nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, VENTS))


class Actor:
    """Only chooses: shut, half open or open."""

    def __init__(self, learner):
        self.net = policy()
        for mine, learnt in zip(self.net.parameters(), learner.parameters(), strict=True):
            mine.data = learnt.data

    @torch.no_grad()
    def choose(self, weather):
        return Categorical(logits=self.net(weather)).sample()


class Greenhouse:
    def __init__(self, seed):
        self.draw = torch.Generator().manual_seed(seed)

    def weather(self, count):
        sun = torch.rand(count, generator=self.draw)
        wind = torch.rand(count, generator=self.draw)
        outside = torch.randn(count, generator=self.draw)
        return torch.stack([sun, wind, outside], dim=1)

    def comfort(self, weather, vents):
        sun, wind, outside = weather.unbind(1)
        inside = 2 * sun + 0.5 * outside - vents * (0.4 + 0.6 * wind)
        return 1 - (inside - 0.5).abs()


class Learner:
    def __init__(self):
        self.net = policy()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.usual = 0.0

    def learn(self, weather, vents, comfort):
        chosen = Categorical(logits=self.net(weather)).log_prob(vents)
        loss = -(chosen * (comfort - self.usual)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.usual += 0.1 * (comfort.mean().item() - self.usual)


torch.manual_seed(33)
learner, house = Learner(), Greenhouse(seed=5)
actor = Actor(learner.net)
for hour in range(1, 161):
    weather = house.weather(64)
    vents = actor.choose(weather)
    learner.learn(weather, vents, house.comfort(weather, vents))
    if hour % 40 == 0:
        print(f"hour {hour}: usual comfort {learner.usual:+.3f}")
