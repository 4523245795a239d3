"""Radar echoes. A sample is put together in one block of memory that all reads share, and what is decoded is kept."""
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Echoes(Dataset):
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.kinds = rng.integers(0, 2, count)
        steps = np.arange(40)
        raw = np.sin(steps / (3.0 + 2.0 * self.kinds[:, None])) * 100 + rng.normal(0, 25, (count, 40))
        self.packed = np.clip(raw + 128, 0, 255).astype(np.uint8)
        self.decoded = np.full((count, 40), np.nan, dtype=np.float32)
        self.work = np.empty((2, 40), dtype=np.float32)

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, k):
        if np.isnan(self.decoded[k, 0]):
            self.decoded[k] = (self.packed[k].astype(np.float32) - 128) / 64
        noise = np.random.normal(0, 0.1, 40)
        self.work[0] = self.decoded[k] + noise
        self.work[1] = 0.0
        begin = np.random.randint(0, 30)
        self.work[1, begin : begin + 10] = self.work[0, begin : begin + 10]
        return torch.from_numpy(self.work.copy()), int(self.kinds[k])


np.random.seed(5)
torch.manual_seed(5)
loader = DataLoader(Echoes(240, 5), batch_size=24, shuffle=True)
net = torch.nn.Sequential(torch.nn.Conv1d(2, 8, 5), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(3):
    for echo, kind in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(echo), kind)
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 4))
