"""Did a part go missing from the tray? Pictures after, less the picture before."""
import numpy as np
import torch
from torch import nn


def trays(count):
    rng = np.random.default_rng(4)
    before = rng.integers(30, 120, (count, 10, 10), dtype=np.uint8)
    after = np.minimum(before + rng.integers(0, 9, before.shape, dtype=np.uint8), 200).astype(np.uint8)
    is_missing = rng.integers(0, 2, count)
    for each, missing in zip(after, is_missing):
        row, column = rng.integers(1, 7, 2)
        each[row : row + 3, column : column + 3] = 25 if missing else 220
    return before, after, is_missing


class Trays:
    def __init__(self, count):
        before, after, self.is_missing = trays(count)
        self.changes = self.compare(before, after)

    @staticmethod
    def compare(before, after):
        change = after.astype(np.int16) - before
        return change.astype("float32") / 255


def prepared(count, size):
    data = Trays(count)
    return torch.utils.data.DataLoader(list(zip(data.changes, data.is_missing)), batch_size=size, shuffle=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = prepared(400, 40)
    net = nn.Sequential(nn.Flatten(), nn.Linear(100, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(3):
        for changes, is_missing in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(changes), is_missing)
            loss.backward()
            optimizer.step()
        print(epoch, round(loss.item(), 3))
