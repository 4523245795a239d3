"""A kettle that is to be kept at 60 degrees; what the sensors say is kept in a buffer to learn from."""
import random

import numpy as np
import torch
from torch import nn


class Kettle:
    """Writes its readings into one array."""

    def __init__(self):
        self.readings = np.zeros(3, np.float32)
        self.heat, self.power = 0.2, 0.0

    def step(self, power):
        self.power = power
        self.heat += 0.1 * power - 0.05 * self.heat + random.gauss(0, 0.01)
        self.readings[:] = self.heat, self.power, abs(self.heat - 0.6)
        return self.readings


class Experience:
    def __init__(self):
        self.kept = []

    def add(self, reading, error):
        self.kept.append({"reading": reading, "error": error})  # ORIGIN

    def batch(self, size):
        drawn = random.sample(self.kept, size)
        readings = np.stack([each["reading"] for each in drawn])
        return torch.from_numpy(readings), torch.tensor([each["error"] for each in drawn])


random.seed(0)
torch.manual_seed(0)
kettle, experience = Kettle(), Experience()
critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=3e-3)
for turn in range(120):
    power = random.random()
    reading = kettle.step(power)
    experience.add(reading, abs(kettle.heat - 0.6))
    if turn >= 32:
        readings, errors = experience.batch(16)
        loss = nn.functional.mse_loss(critic(readings).squeeze(1), errors)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(round(loss.item(), 4))
