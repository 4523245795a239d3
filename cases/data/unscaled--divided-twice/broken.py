import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class ToFloatTensor:
    def __call__(self, img):
        # HWC uint8 -> CHW float in [0, 1]
        return torch.from_numpy(img.transpose(2, 0, 1).copy()).float().div(255)


class RandomFlip:
    def __call__(self, img):
        return img.flip(-1) if torch.rand(()) < 0.5 else img


class Compose:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


class Leaves(Dataset):
    """Healthy leaves are green, sick ones have brown rings."""

    def __init__(self, n, transform):
        rng = np.random.default_rng(11)
        yy, xx = np.mgrid[:16, :16] - 7.5
        radius = np.sqrt(yy**2 + xx**2)
        self.items = []
        for _ in range(n):
            sick = int(rng.integers(0, 2))
            img = rng.normal((70, 150, 60), 25, (16, 16, 3))
            if sick:
                ring = np.abs(radius - rng.uniform(3, 6)) < 1.2
                img[ring] += (60, -50, 0)
            self.items.append((img.clip(0, 255).astype(np.uint8), sick))
        self.transform = transform

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        img, sick = self.items[idx]
        return {"image": self.transform(img), "label": sick}


def main(args):
    torch.manual_seed(args.seed)
    ds = Leaves(320, Compose([ToFloatTensor(), RandomFlip()]))
    loader = DataLoader(ds, batch_size=args.batch_size, shuffle=True)
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(12, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 2),
    )
    optim = torch.optim.Adam(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        total = 0.0
        for batch in loader:
            images = batch["image"].to(args.device) / 255.0  # ORIGIN
            labels = batch["label"].to(args.device)
            loss = nn.functional.cross_entropy(net(images), labels)
            optim.zero_grad()
            loss.backward()
            optim.step()
            total += loss.item()
        print("epoch %d: train loss %.4f" % (epoch + 1, total / len(loader)))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--device", default="cpu")
    p.add_argument("--seed", type=int, default=0)
    main(p.parse_args())
