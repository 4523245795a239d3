"""Land use from satellite tiles with four bands."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BANDS = 4


class Tiles(Dataset):
    def __init__(self, count, side=18, seed=31):
        rng = np.random.default_rng(seed)
        self.use = rng.integers(0, BANDS, count)
        self.tiles = rng.normal(0, 0.3, (count, side, side, BANDS)).astype(np.float32)
        self.tiles[np.arange(count), :, :, self.use] += 0.4

    def __len__(self):
        return len(self.use)

    def __getitem__(self, index):
        tile = self.tiles[index]
        tile = np.ascontiguousarray(np.transpose(tile, (2, 0, 1)))
        return {"tile": torch.from_numpy(tile), "use": int(self.use[index])}


net = nn.Sequential(
    nn.Conv2d(BANDS, 12, 3, stride=2),
    nn.BatchNorm2d(12),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(12, BANDS),
)


def train(epochs):
    torch.manual_seed(0)
    loader = DataLoader(Tiles(192), batch_size=24, shuffle=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(epochs):
        for batch in loader:
            loss = nn.functional.cross_entropy(net(batch["tile"]), batch["use"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


print(f"{train(epochs=3):.3f}")
