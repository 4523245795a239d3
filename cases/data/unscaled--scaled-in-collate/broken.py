"""Cracked or whole? Tiles are photographed in grey, and told apart by their edges."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def photograph(number):
    dice = np.random.default_rng(number)
    tile = dice.normal(140, 12, (14, 14))
    if number % 2:
        tile[:, dice.integers(3, 11)] -= 60
    return tile.clip(0, 255).astype(np.uint8)


class Tiles(Dataset):
    def __init__(self, count):
        self.tiles = [photograph(number) for number in range(count)]

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, index):
        return self.tiles[index].astype(np.float32) / 255, index % 2


class Collate:
    def __init__(self, brightest):
        self.brightest = brightest

    def __call__(self, pairs):
        tiles, cracked = zip(*pairs)
        stacked = np.stack(tiles)[:, None]
        stacked = stacked / self.brightest  # ORIGIN
        return torch.from_numpy(stacked), torch.tensor(cracked)


def main():
    torch.manual_seed(2)
    loader = DataLoader(Tiles(240), batch_size=24, shuffle=True, collate_fn=Collate(brightest=255))
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    for epoch in range(3):
        for tiles, cracked in loader:
            loss = nn.functional.cross_entropy(net(tiles), cracked)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


main()
