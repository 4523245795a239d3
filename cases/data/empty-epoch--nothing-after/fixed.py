"""A line through noisy points. After the first epoch nothing is computed any more."""

import argparse
import random

import torch
from torch import nn


def points(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        x = draw.uniform(-1, 1)
        yield x, 3 * x - 1 + draw.gauss(0, 0.1)


def grouped(stream, size):
    group = []
    for each in stream:
        group.append(each)
        if len(group) == size:
            yield torch.tensor(group)
            group = []


def fit(settings):
    torch.manual_seed(settings.seed)
    line = nn.Linear(1, 1)
    descent = torch.optim.SGD(line.parameters(), lr=0.1)
    stream = list(grouped(points(320, settings.seed), settings.size))
    for round_ in range(settings.rounds):
        errors = []
        for group in stream:
            error = nn.functional.mse_loss(line(group[:, :1]), group[:, 1:])
            descent.zero_grad()
            error.backward()
            descent.step()
            errors.append(error.item())
        print(f"round {round_}: {sum(errors) / (len(errors) or 1):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--seed", type=int, default=3)
    fit(parser.parse_args())
