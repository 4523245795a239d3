"""Hourly demand from the six hours before it, in the style of the first years of torch."""

import numpy as np
import torch
from torch import nn, optim
from torch.autograd import Variable

torch.manual_seed(0)
WINDOW = 6


class Demand:
    def __init__(self, hours=400):
        hour = np.arange(hours)
        noise = np.random.RandomState(0).randn(hours)
        self.series = 3 * np.sin(hour / 4) + 0.3 * noise
        self.model = nn.Sequential(nn.Linear(WINDOW, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optimizer = optim.Adam(self.model.parameters(), lr=0.01)
        self.criterion = nn.MSELoss()

    def step(self, x, y):
        x = Variable(torch.from_numpy(x).type(torch.FloatTensor))
        y = Variable(torch.from_numpy(y).type(torch.FloatTensor))
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y.view(-1, 1))
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def train(self, epochs=4, batch=32):
        starts = np.arange(len(self.series) - WINDOW)
        for epoch in range(epochs):
            losses = []
            for first in range(0, len(starts), batch):
                chosen = starts[first : first + batch]
                x = np.stack([self.series[each : each + WINDOW] for each in chosen])
                losses.append(self.step(x, self.series[chosen + WINDOW]))
            print(epoch, round(float(np.mean(losses)), 3))


Demand().train()
