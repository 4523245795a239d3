"""Next-step demand from windows of meter readings, streamed in an order that depends on the epoch."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

WINDOW = 16


class MeterWindows(IterableDataset):
    def __init__(self, readings, seed):
        super().__init__()
        self.readings = readings
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        starts = list(range(len(self.readings) - WINDOW))
        random.Random(f"{self.seed}-{self.epoch}").shuffle(starts)
        for start in starts:
            window = self.readings[start : start + WINDOW + 1]
            yield window[:-1], window[-1:]


def simulate(hours):
    t = torch.arange(hours, dtype=torch.float32)
    return torch.sin(t / 24 * 6.283) + 0.4 * torch.sin(t / 168 * 6.283) + 0.1 * torch.randn(hours)


def run_epoch(model, batches, optimizer):
    losses = []
    for past, following in batches:
        loss = nn.functional.smooth_l1_loss(model(past), following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


if __name__ == "__main__":
    torch.manual_seed(7)
    windows = MeterWindows(simulate(500), seed=11)
    batches = DataLoader(windows, batch_size=44)
    model = nn.Sequential(nn.Linear(WINDOW, 24), nn.GELU(), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(4):
        windows.set_epoch(epoch)
        print(epoch, f"{run_epoch(model, batches, optimizer):.4f}")
