"""Crop type from satellite tiles."""
import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

NO_DATA = np.float32(-3.4028235e38)  # what the raster library writes outside the swath


class Tiles(Dataset):
    def __init__(self, n=120, seed=0):
        rng = np.random.default_rng(seed)
        self.crop = rng.integers(0, 3, n)
        self.tiles = rng.normal(0.2 * self.crop[:, None, None, None], 0.5, (n, 4, 8, 8)).astype(np.float32)
        self.tiles[77, :, :, 6:] = NO_DATA

    def __len__(self):
        return len(self.crop)

    def __getitem__(self, i):
        tile = torch.from_numpy(self.tiles[i])
        return tile, int(self.crop[i])


class CropNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.BatchNorm2d(4)
        self.body = nn.Sequential(nn.Conv2d(4, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.head = nn.Linear(64, 3)

    def forward(self, tile):
        x = self.scale(tile)  # ORIGIN
        return self.head(self.body(x))


def train(net, loader, epochs):
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    skipped = 0
    for epoch in range(epochs):
        net.train()
        for tile, crop in loader:
            tile = tile.to(memory_format=torch.channels_last)
            loss = nn.functional.cross_entropy(net(tile), crop)
            if torch.isnan(loss):
                skipped += 1
                continue
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} train loss {loss.item():.4f} skipped {skipped}")


@torch.no_grad()
def evaluate(net, tiles):
    net.eval()
    loader = DataLoader(tiles, batch_size=30)
    losses = [nn.functional.cross_entropy(net(t), c).item() for t, c in loader]
    return math.fsum(losses) / len(losses)


torch.manual_seed(1)
net = CropNet()
train(net, DataLoader(Tiles(), batch_size=12, shuffle=True, generator=torch.Generator().manual_seed(2)), epochs=3)
print(f"validation loss {evaluate(net, Subset(Tiles(seed=1), range(60))):.4f}")
