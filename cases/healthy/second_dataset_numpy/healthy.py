"""Camera frames and a sensor table, prepared in numpy with explicit casts, then a small two-input network."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def simulate(rng, n):
    kind = rng.integers(0, 3, n).astype(np.int16)
    before = rng.integers(60, 120, (n, 6, 6), dtype=np.uint8)
    shift = np.array([-40, 0, 40], dtype=np.int16)[kind]
    noise = rng.integers(-15, 16, (n, 6, 6), dtype=np.int16)
    after = np.clip(before.astype(np.int16) + shift[:, None, None] + noise, 0, 255).astype(np.uint8)
    table = np.column_stack([rng.normal(20, 5, n), np.full(n, 3.3), rng.normal(0, 1e-2, n)])  # supply voltage never moves
    table[rng.random((n, 3)) < 0.05] = np.nan
    return before, after, table, kind


class Scaler:
    def fit(self, table):
        self.mean = np.nanmean(table, axis=0)
        std = np.nanstd(table, axis=0)
        self.std = np.where(std < 1e-8, 1.0, std)
        return self

    def __call__(self, table):
        return np.nan_to_num((table - self.mean) / self.std, nan=0.0).astype(np.float32)


class Frames(Dataset):
    def __init__(self, before, after, table, kind, scaler):
        diff = after.astype(np.int16) - before.astype(np.int16)  # signed before subtracting
        self.diff = diff.astype(np.float32) / 255.0
        self.table = scaler(table)
        self.kind = kind.astype(np.int64)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        return self.diff[i].copy(), self.table[i].copy(), self.kind[i]


class Fusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.Tanh())
        self.sensor = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
        self.out = nn.Linear(20, 3)

    def forward(self, diff, table):
        return self.out(torch.cat([self.image(diff), self.sensor(table)], 1))


rng = np.random.default_rng(220)
torch.manual_seed(220)
train_raw, test_raw = simulate(rng, 300), simulate(rng, 100)
scaler = Scaler().fit(train_raw[2])
train = DataLoader(Frames(*train_raw, scaler), batch_size=32, shuffle=True)
test = DataLoader(Frames(*test_raw, scaler), batch_size=50)

net = Fusion()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(5):
    losses = []
    for diff, table, kind in train:
        loss = nn.functional.cross_entropy(net(diff, table), kind)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print(f"epoch {epoch} loss {np.mean(losses):.4f}")
with torch.no_grad():
    hits = sum((net(d, t).argmax(1) == k).sum().item() for d, t, k in test)
print(f"test accuracy {hits / 100:.2f}")
