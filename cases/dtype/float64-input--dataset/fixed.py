import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    width: int = 12
    batch_size: int = 16
    lr: float = 1e-3
    epochs: int = 2
    seed: int = 7


def make_windows(length, width):
    signal = [math.sin(0.15 * t) + 0.3 * math.sin(0.41 * t) for t in range(length)]
    count = length - width - 1
    windows = np.zeros((count, width), dtype=np.float32)
    nxt = np.zeros((count, 1), dtype=np.float32)
    for i in range(count):
        windows[i] = signal[i:i + width]
        nxt[i, 0] = signal[i + width]
    return windows, nxt


class WindowDataset(Dataset):
    def __init__(self, cfg, length=200):
        self.windows, self.nxt = make_windows(length, cfg.width)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, i):
        return self.windows[i], self.nxt[i]


class Trainer:
    def __init__(self, cfg: Config):
        torch.manual_seed(cfg.seed)
        self.cfg = cfg
        self.loader = DataLoader(WindowDataset(cfg), batch_size=cfg.batch_size, shuffle=True)
        self.model = nn.Linear(cfg.width, 1)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr)
        self.loss_fn = nn.SmoothL1Loss()

    def step(self, batch):
        window, nxt = batch
        self.opt.zero_grad()
        loss = self.loss_fn(self.model(window), nxt)
        loss.backward()
        self.opt.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.cfg.epochs):
            losses = [self.step(batch) for batch in self.loader]
            print(epoch, sum(losses) / len(losses))


if __name__ == "__main__":
    Trainer(Config()).fit()
