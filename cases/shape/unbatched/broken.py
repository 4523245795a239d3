import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    """Bars at different heights, as a stand-in for scanned digits."""

    def __init__(self, n, side):
        self.n, self.side = n, side

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        label = i % 4
        g = torch.Generator().manual_seed(i)
        img = torch.rand(self.side, self.side, generator=g)  # ORIGIN
        img[label * 3 : label * 3 + 3] += 1.0
        return img, label


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--side", type=int, default=14)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 4))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(2):
        for img, label in DataLoader(Digits(64, args.side), batch_size=args.batch_size, shuffle=True):
            loss = nn.functional.cross_entropy(net(img), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
