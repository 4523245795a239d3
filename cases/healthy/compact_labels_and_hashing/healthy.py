# 200 shops stored as uint8 (which holds them), user ids hashed into a fixed table with a bucket for strangers
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SHOPS, BUCKETS = 200, 64


def bucket(user):
    """1 .. BUCKETS - 1; bucket 0 is for visitors without an account"""
    return 0 if user is None else 1 + zlib.crc32(user.encode()) % (BUCKETS - 1)


class Visits(Dataset):
    def __init__(self, n):
        rng = np.random.default_rng(19)
        self.users = [None if rng.random() < 0.1 else f"user-{rng.integers(500)}" for _ in range(n)]
        liking = np.random.default_rng(1).integers(0, SHOPS, BUCKETS)
        chosen = [liking[bucket(u)] if rng.random() < 0.8 else rng.integers(SHOPS) for u in self.users]
        self.shop = np.array(chosen).astype(np.uint8)
        self.hour = (rng.integers(0, 24, n) / 12 - 1).astype(np.float32)

    def __len__(self):
        return len(self.users)

    def __getitem__(self, i):
        return bucket(self.users[i]), self.hour[i], torch.tensor(self.shop[i], dtype=torch.long)


class NextShop(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(BUCKETS, 24)
        self.mlp = nn.Sequential(nn.Linear(25, 64), nn.ReLU(), nn.Linear(64, SHOPS))

    def forward(self, user, hour):
        return self.mlp(torch.cat([self.user(user), hour[:, None]], dim=1))


torch.manual_seed(19)
visits = Visits(1500)
loader = DataLoader(visits, batch_size=50, shuffle=True)
model = NextShop()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(3):
    hits = 0
    for user, hour, shop in loader:
        scores = model(user, hour)
        loss = nn.functional.cross_entropy(scores, shop)
        opt.zero_grad()
        loss.backward()
        opt.step()
        hits += (scores.argmax(1) == shop).sum().item()
    print(f"epoch {epoch}: top-1 {hits / len(visits):.3f}")
