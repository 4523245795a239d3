import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Compose:
    def __init__(self, *steps):
        self.steps = steps

    def __call__(self, img):
        for step in self.steps:
            img = step(img)
        return img


class RandomBrightness:
    def __init__(self, most, rng):
        self.most, self.rng = most, rng

    def __call__(self, img):
        shift = self.rng.integers(0, self.most, dtype=np.uint8)
        return img + shift  # ORIGIN


def to_float(img):
    return torch.from_numpy(np.clip(img, 0, 255).astype(np.float32) / 127.5 - 1.0).unsqueeze(0)


class Scratches(Dataset):
    """grey plates: clean, with a dark scratch, or with a bright one"""

    def __init__(self, n, transform, seed=0):
        rng = np.random.default_rng(seed)
        self.kind = rng.integers(0, 3, n)
        img = rng.integers(140, 180, (n, 12, 12))
        for k, kind in enumerate(self.kind):
            row, col = rng.integers(1, 8, 2)
            img[k, row, col:col + 4] += (0, -60, 60)[kind]
        self.img = img.astype(np.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, k):
        return self.transform(self.img[k]), int(self.kind[k])


def build():
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(12, 3))


if __name__ == "__main__":
    torch.manual_seed(2)
    augment = Compose(RandomBrightness(90, np.random.default_rng(8)), to_float)
    loader = DataLoader(Scratches(360, augment), batch_size=24, shuffle=True)
    net, ce = build(), nn.CrossEntropyLoss()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for epoch in range(6):
        total, right = 0.0, 0
        for x, y in loader:
            out = net(x)
            loss = ce(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() / len(loader)
            right += (out.argmax(1) == y).sum().item()
        print(f"epoch {epoch} loss {total:.4f} acc {right / 360:.3f}")
