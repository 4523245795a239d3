"""Molecules of any number of atoms, each pooled by itself; the scale of a molecule is the largest of its atoms' states."""

import random

import torch
from torch import nn

LARGEST = 8


def batches(count, size):
    """Numbers of atoms, padded, and how many there are. Late in the run some molecules have only one kind."""
    for turn in range(count):
        drawn = [random.sample(range(1, 7), random.randint(2, 6)) for _ in range(size)]
        if turn >= 0.85 * count:
            drawn[turn % size] = [drawn[0][0]] * random.randint(2, LARGEST)
        padded = torch.tensor([each + [0] * (LARGEST - len(each)) for each in drawn])
        yield padded, [len(each) for each in drawn], torch.tensor([sum(each) / len(each) for each in drawn])


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, padded, sizes):
        pooled = []
        for atoms, size in zip(padded, sizes):
            states = self.embed(atoms[:size])
            if size > 4:
                states = states * 0.5
            centred = states - states.mean(0)
            pooled.append(states.mean(0) + (centred / (centred.abs().amax(0) + 1e-6)).mean(0))
        return self.head(torch.stack(pooled)).squeeze(1)


def main():
    torch.manual_seed(0)
    random.seed(0)
    model = Pool()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for padded, sizes, target in batches(130, 12):
        target = (target - 3.5) / 1.7
        loss = (model(padded, sizes) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
