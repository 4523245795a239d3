"""A thermostat learns from what it has seen: a replay of turns, drawn in minibatches and sorted into columns."""
import random
from collections import deque

import numpy as np
import torch
from torch import nn


class Room:
    def __init__(self):
        self.warmth = np.float32(15.0)
        self.hour = 0

    def sight(self):
        angle = 2 * np.pi * self.hour / 24
        return np.array([self.warmth / 20, np.sin(angle), np.cos(angle)])  # ORIGIN

    def heat(self, on):
        self.warmth += np.float32(0.8 * on - 0.4)
        self.hour = (self.hour + 1) % 24
        return self.sight(), -abs(float(self.warmth) - 20)


class Learner:
    def __init__(self):
        self.value = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
        self.opt = torch.optim.Adam(self.value.parameters(), lr=1e-3)
        self.turns = deque(maxlen=300)

    def learn(self):
        before, chosen, reward, after = zip(*random.sample(self.turns, 16))
        before, after = torch.as_tensor(np.stack(before)), torch.as_tensor(np.stack(after))
        with torch.no_grad():
            best = self.value(after).amax(1)
        goal = torch.tensor(reward) + 0.9 * best
        guess = self.value(before).gather(1, torch.tensor(chosen)[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(guess, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


random.seed(0)
torch.manual_seed(0)
room, learner = Room(), Learner()
seen = room.sight()
for turn in range(60):
    on = random.randrange(2)
    after, reward = room.heat(on)
    learner.turns.append((seen, on, reward, after))
    seen = after
    if len(learner.turns) >= 32:
        loss = learner.learn()
print(f"{loss:.3f}")
