import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Doors(Dataset):
    """two 8-bit frames of a corridor: has the door moved between them?"""

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.moved = rng.integers(0, 2, n)
        base = rng.integers(60, 160, (n, 1, 1)) + rng.integers(-10, 11, (n, 12, 12))
        a, b = base.copy(), base + rng.integers(-6, 7, base.shape)
        for k in range(n):
            c = rng.integers(1, 8)
            a[k, 3:10, c:c + 3] += 60
            d = c + (2 if self.moved[k] else 0)
            b[k, 3:10, d:d + 3] += 60
        self.a, self.b = a.clip(0, 255).astype(np.uint8), b.clip(0, 255).astype(np.uint8)

    def __len__(self):
        return len(self.moved)

    def __getitem__(self, k):
        a, b = self.a[k], self.b[k]
        mean = a // 2 + b // 2                         # at most 254
        gap = np.maximum(a, b) - np.minimum(a, b)      # never below zero
        edge = (gap > 30).astype(np.uint8) * 255       # 0 or 255
        x = np.stack([mean, gap, edge & 0x7F]).astype(np.float32)
        x = (x - np.float32([[[110]], [[15]], [[10]]])) / np.float32([[[35]], [[20]], [[35]]])
        return torch.from_numpy(x), int(self.moved[k])


torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 2),
)
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
loader = DataLoader(Doors(320), batch_size=32, shuffle=True)
for epoch in range(4):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() / len(loader)
    print(f"epoch {epoch} loss {total:.4f}")
