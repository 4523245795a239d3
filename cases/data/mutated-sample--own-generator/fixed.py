"""Leaf scans, four kinds of mildew; a square of each scan is cut out in training so that the net looks at all of it."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 16


def scans(count, rng):
    kind = rng.integers(0, 4, count)
    rows, columns = np.mgrid[:SIDE, :SIDE] / SIDE
    images = np.empty((count, SIDE, SIDE), dtype=np.float32)
    for image, k in zip(images, kind, strict=True):
        angle = k * np.pi / 4
        wave = np.sin(14 * (rows * np.cos(angle) + columns * np.sin(angle)) + rng.uniform(0, 6))
        image[:] = 0.6 * wave + rng.normal(0, 0.3, wave.shape)
    return images, kind


class Leaves(Dataset):
    def __init__(self, images, kind, cutout=0, seed=0):
        self.images, self.kind = images, kind
        self.cutout = cutout
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, index):
        image = self.images[index].copy()
        if self.cutout:
            top, left = self.rng.integers(0, SIDE - self.cutout, size=2)
            image[top : top + self.cutout, left : left + self.cutout] = 0.0
        return torch.tensor(image).unsqueeze(0), int(self.kind[index])


class LeafNet(nn.Module):
    def __init__(self, kinds=4):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU())
        self.head = nn.Linear(16, kinds)

    def forward(self, image):
        return self.head(self.features(image).mean((2, 3)))


def main():
    torch.manual_seed(6)
    rng = np.random.default_rng(6)
    train = DataLoader(Leaves(*scans(240, rng), cutout=5, seed=1), batch_size=24, shuffle=True)
    test = DataLoader(Leaves(*scans(80, rng)), batch_size=80)
    net = LeafNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3)
    for epoch in range(6):
        net.train()
        for image, kind in train:
            loss = nn.functional.cross_entropy(net(image), kind)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            right = sum((net(image).argmax(1) == kind).sum().item() for image, kind in test)
        print(f"epoch {epoch}: loss {loss.item():.3f}, {right} of {len(test.dataset)} right")


if __name__ == "__main__":
    main()
