import random
from collections import deque

import torch


def ticks(seed, count):
    source = random.Random(seed)
    price = 100.0
    for k in range(count):
        step = source.gauss(0.0, 0.5)
        price += step
        # trading is halted for a while
        volume = 0 if 1490 <= k < 1500 else source.randint(1, 40)
        yield price, volume, int(step > 0)


class Window:
    def __init__(self, size):
        self.ticks = deque(maxlen=size + 1)
        self.size = size

    @property
    def is_full(self):
        return len(self.ticks) > self.size

    def push(self, price, volume):
        self.ticks.append((price, float(volume)))

    def features(self):
        prices, volumes = torch.tensor(list(self.ticks)).unbind(1)
        moves = prices.diff()
        weights = volumes / volumes.sum().clamp(min=1.0)
        level = (weights * prices).sum() - prices[-1]
        return torch.cat([moves, level[None]])
