"""Wear of cutting tools, in tenths of a millimetre, from force readings. Readings of a batch are padded in the collate function."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader


def measure(runs, seed):
    rng = random.Random(seed)
    log = []
    for _ in range(runs):
        wear = rng.uniform(0.2, 5.0)
        forces = [wear * rng.uniform(0.8, 1.2) + rng.gauss(0, 0.2) for _ in range(rng.randint(4, 9))]
        log.append((forces, wear))
    return log


def pad(runs):
    lengths = torch.tensor([len(forces) for forces, _ in runs])
    padded = torch.zeros(len(runs), int(lengths.max()))
    wear = lengths.new_zeros(len(runs))  # ORIGIN
    for row, (forces, measured) in enumerate(runs):
        padded[row, : len(forces)] = torch.tensor(forces)
        wear[row] = measured
    return padded, lengths, wear


class WearNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 16, batch_first=True)
        self.out = nn.Linear(16, 1)

    def forward(self, padded, lengths):
        states, _ = self.rnn(padded.unsqueeze(-1))
        last = states[torch.arange(len(lengths)), lengths - 1]
        return self.out(last).squeeze(-1)


def main():
    torch.manual_seed(3)
    loader = DataLoader(measure(240, seed=8), batch_size=24, shuffle=True, collate_fn=pad)
    model = WearNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        error = 0.0
        for padded, lengths, wear in loader:
            loss = (model(padded, lengths) - wear.float()).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            error += loss.item()
        print(f"epoch {epoch}: mean error {error / len(loader):.3f}")


if __name__ == "__main__":
    main()
