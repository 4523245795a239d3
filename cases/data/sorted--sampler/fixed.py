import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Digits(Dataset):
    """8x8 glyphs, seven-segment style"""
    SEGMENTS = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011"]

    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        self.targets = rng.randint(0, len(self.SEGMENTS), n)
        lit = np.array([[int(c) for c in s] for s in self.SEGMENTS], dtype=np.float32)
        glyphs = lit[self.targets] @ np.random.RandomState(0).randn(7, 64)
        self.pixels = ((glyphs - glyphs.mean()) / glyphs.std() + 0.4 * rng.randn(n, 64)).astype(np.float32)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.pixels[i], int(self.targets[i])


class EveryClassSampler(Sampler):
    """Visits each glyph of each class exactly once per epoch."""

    def __init__(self, targets):
        self.targets = torch.as_tensor(targets)

    def __len__(self):
        return len(self.targets)

    def __iter__(self):
        order = torch.randperm(len(self.targets))
        return iter(order.tolist())


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=24)
    p.add_argument("--lr", type=float, default=2e-3)
    return p.parse_args([])


def main(args):
    torch.manual_seed(9)
    train = Digits(360, seed=1)
    loader = DataLoader(train, batch_size=args.batch_size, sampler=EveryClassSampler(train.targets))
    net = nn.Sequential(nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 6))
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        history = []
        for pixels, target in loader:
            loss = nn.functional.cross_entropy(net(pixels), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            history.append(loss.item())
        with torch.no_grad():
            acc = (net(torch.from_numpy(train.pixels)).argmax(1).numpy() == train.targets).mean()
        print(f"epoch {epoch} loss {np.mean(history):.3f} train acc {acc:.3f}")


main(parse())
