"""Maps of the night sky, a square of each: is there a comet in it?"""
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

SIDE = 16


class Sky:
    def __init__(self, maps):
        rng = np.random.default_rng(3)
        self.maps = [rng.normal(0, 1, (1, *rng.integers(24, 40, 2))).astype(np.float32) for _ in range(maps)]

    def __len__(self):
        return len(self.maps)

    def __getitem__(self, k):
        sky = self.maps[k]
        height, width = sky.shape[1:]
        top = random.randint(0, height - SIDE)
        left = random.randint(0, width - SIDE)
        square = sky[:, top : top + SIDE, left : left + SIDE]
        comet = k % 2
        if comet:
            square = square + np.eye(SIDE, square.shape[-1], dtype=np.float32)
        return {"square": square.copy(), "comet": comet}


def main():
    random.seed(3)
    torch.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(1, 4, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for epoch in range(2):
        for batch in DataLoader(Sky(80), batch_size=8, shuffle=True):
            loss = nn.functional.cross_entropy(net(batch["square"]), batch["comet"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
