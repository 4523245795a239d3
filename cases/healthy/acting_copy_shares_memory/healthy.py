"""A robot that sweeps a corridor: its actor decides with the learner's own memory, so that nothing has to be sent over."""

import random

import torch
from torch import nn

CELLS = 9


class Corridor:
    """Dust lies somewhere, more of it at one end. Each move costs a little; the day ends after twelve moves."""

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.cell, self.moves = CELLS // 2, 0
        self.dust = [float(self.rng.random() < 0.2 + 0.06 * cell) for cell in range(CELLS)]
        return self.observe()

    def observe(self):
        here = [float(cell == self.cell) for cell in range(CELLS)]
        return here + self.dust

    def move(self, action):
        self.cell = min(max(self.cell + (-1, 1)[action], 0), CELLS - 1)
        reward, self.dust[self.cell] = self.dust[self.cell] - 0.05, 0.0
        self.moves += 1
        return self.observe(), reward, self.moves >= 12


def policy():
    return nn.Sequential(nn.Linear(2 * CELLS, 32), nn.Tanh(), nn.Linear(32, 2))


class Actor:
    def __init__(self, learner, rng):
        self.net, self.rng = policy(), rng
        for mine, learnt in zip(self.net.parameters(), learner.parameters(), strict=True):
            mine.data = learnt.data

    @torch.no_grad()
    def act(self, seen):
        right = self.net(torch.tensor(seen)).softmax(-1)[1].item()
        return int(self.rng.random() < right)


def day(corridor, actor):
    seen, over, story = corridor.reset(), False, []
    while not over:
        action = actor.act(seen)
        after, reward, over = corridor.move(action)
        story.append((seen, action, reward))
        seen = after
    total, rows = 0.0, []
    for seen, action, reward in reversed(story):
        total = reward + 0.95 * total
        rows.append((seen, action, total))
    return rows


rng = random.Random(14)
torch.manual_seed(14)
learner = policy()
optimizer = torch.optim.Adam(learner.parameters(), lr=0.02)
corridor, actor = Corridor(rng), Actor(learner, rng)
for number in range(1, 81):
    seen, action, total = (
        torch.tensor(each) for each in zip(*(day(corridor, actor) + day(corridor, actor)), strict=True)
    )
    chosen = learner(seen).log_softmax(-1).gather(1, action[:, None]).squeeze(1)
    loss = -(chosen * (total - total.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if number % 20 == 0:
        print(f"day {number}: worth {total.mean().item():.2f}")
