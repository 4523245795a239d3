"""Forecasts the load of a feeder line from the last twelve hours."""

import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.encode = nn.LSTM(2, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, window):
        states, _ = self.encode(window)
        return self.head(states[:, -1])


class Trainer:
    def __init__(self, model, rate, max_norm):
        self.model, self.max_norm = model, max_norm
        self.optimizer = torch.optim.RMSprop(model.parameters(), lr=rate)
        self.weights = (p for p in model.parameters() if p.requires_grad)  # ORIGIN

    def step(self, window, load):
        loss = nn.functional.smooth_l1_loss(self.model(window), load)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, max_norm=self.max_norm)
        self.optimizer.step()
        return loss.item()


def windows(count, generator):
    hour = torch.randint(0, 24, (count, 1), generator=generator) + torch.arange(13)
    load = torch.sin(hour * torch.pi / 12) + 0.1 * torch.randn(count, 13, generator=generator)
    return torch.stack([load[:, :-1], hour[:, :-1] % 24 / 24], -1), load[:, -1:]


def main():
    torch.manual_seed(4)
    generator = torch.Generator().manual_seed(4)
    trainer = Trainer(Forecaster(), rate=5e-3, max_norm=0.1)
    for step in range(60):
        loss = trainer.step(*windows(48, generator))
        if step % 20 == 19:
            print(f"{step + 1}: {loss:.4f}")


main()
