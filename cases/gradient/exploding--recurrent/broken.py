import argparse

import torch
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--length", type=int, default=60)
    p.add_argument("--hidden", type=int, default=40)
    p.add_argument("--lr", type=float, default=1.5e-3)
    return p.parse_args([])


class Forecaster(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.rnn = nn.RNN(1, hidden, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(hidden, 1)
        nn.init.orthogonal_(self.rnn.weight_hh_l0)
        with torch.no_grad():
            self.rnn.weight_hh_l0.mul_(1.6)  # ORIGIN

    def forward(self, wave):
        out, _ = self.rnn(wave)
        return self.head(out[:, -1])


def waves(batch, length):
    t = torch.arange(length + 1) * 0.25
    phase = 6.28 * torch.rand(batch, 1)
    speed = 0.8 + 0.4 * torch.rand(batch, 1)
    series = torch.sin(speed * t + phase).unsqueeze(-1)
    return series[:, :-1], series[:, -1]


def main():
    args = parse()
    torch.manual_seed(0)
    model = Forecaster(args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        past, nxt = waves(32, args.length)
        loss = nn.functional.mse_loss(model(past), nxt)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 7 == 0:
            print(f"step {step:2d}  mse {loss.item():.5g}")


main()
