"""Leaves by their colour: a memory map of (row, column, channel), made ready once."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROWS, COLUMNS, CHANNELS = 14, 18, 4


def scanned(count):
    rng = np.random.default_rng(9)
    species = rng.integers(0, CHANNELS, count)
    scans = rng.normal(0.3, 0.1, (count, ROWS, COLUMNS, CHANNELS))
    scans[np.arange(count), :, :, species] += 0.15
    return scans, species


def channels_first(scans):
    return np.reshape(scans, (len(scans), CHANNELS, ROWS, COLUMNS))  # ORIGIN


def ready(count):
    scans, species = scanned(count)
    scans = channels_first(scans).astype(np.float32)
    return TensorDataset(torch.tensor(scans), torch.tensor(species))


class Colours(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS, 12, 3)
        self.head = nn.Linear(12, CHANNELS)

    def forward(self, scans):
        return self.head(self.conv(scans).relu().mean((2, 3)))


def train(data, epochs):
    torch.manual_seed(1)
    model = Colours()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        for scans, species in DataLoader(data, batch_size=32, shuffle=True):
            loss = nn.functional.cross_entropy(model(scans), species)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield epoch, loss.item()


if __name__ == "__main__":
    for epoch, loss in train(ready(320), 3):
        print(f"epoch {epoch}: {loss:.3f}")
