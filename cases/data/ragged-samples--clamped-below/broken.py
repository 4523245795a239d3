# which valve sticks? pressure around the moment of switching, from one long log
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SPAN, WOBBLE = 32, 10


class Switchings(Dataset):
    def __init__(self, log, moments):
        self.log = log
        self.moments = moments

    def __len__(self):
        return len(self.moments)

    def window(self, moment):
        wobble = random.randint(-WOBBLE, WOBBLE)
        first = moment - SPAN // 2 + wobble  # ORIGIN
        if first < 0:
            first = 0
        return self.log[first : first + SPAN]

    def __getitem__(self, k):
        moment, sticks = self.moments[k]
        pressure = self.window(moment)
        return pressure - pressure.mean(0), sticks


def record(length, count):
    log = torch.randn(length, 2).cumsum(0) * 0.1
    moments = []
    for _ in range(count):
        moment, sticks = random.randrange(20, length - 20), random.randrange(2)
        log[moment : moment + 8, 0] += 1.0 + 2.0 * sticks
        moments.append((moment, sticks))
    return log, moments


def main():
    random.seed(6)
    torch.manual_seed(6)
    loader = DataLoader(Switchings(*record(4000, 300)), batch_size=15, shuffle=True)
    net = nn.Sequential(nn.Flatten(), nn.Linear(2 * SPAN, 24), nn.ReLU(), nn.Linear(24, 2))
    adam = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(6):
        for pressure, sticks in loader:
            loss = nn.functional.cross_entropy(net(pressure), sticks)
            adam.zero_grad()
            loss.backward()
            adam.step()
        print(epoch, f"{loss.item():.3f}")


main()
