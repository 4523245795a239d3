import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class MotionPairs(Dataset):
    """difference of two consecutive camera frames -> direction of the moving spot (left / right)"""

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        base = rng.integers(90, 130, (n, 10, 10))
        noise = rng.integers(-12, 13, (2, n, 10, 10))
        prev, cur = base + noise[0], base + noise[1]
        self.direction = rng.integers(0, 2, n)
        for k in range(n):
            r, c = rng.integers(1, 9), rng.integers(3, 7)
            prev[k, r, c] += 70
            cur[k, r, c + (1 if self.direction[k] else -1)] += 70
        self.prev, self.cur = prev.astype(np.uint8), cur.astype(np.uint8)

    def __len__(self):
        return len(self.direction)

    def __getitem__(self, k):
        diff = self.cur[k].astype(np.int16) - self.prev[k].astype(np.int16)
        diff = diff.astype(np.float32) / 64.0
        return torch.from_numpy(diff)[None], int(self.direction[k])


class FlowNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(1))
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        return self.out(self.features(x).flatten(1))


def main(epochs=6):
    torch.manual_seed(1)
    loader = DataLoader(MotionPairs(320), batch_size=20, shuffle=True)
    net = FlowNet()
    optim = torch.optim.Adam(net.parameters(), lr=0.02)
    ce = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            loss = ce(net(x), y)
            optim.zero_grad()
            loss.backward()
            optim.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
