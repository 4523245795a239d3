"""Wines by their measurements, cellar by cellar. Reads stay within a chunk of rows: the real file lies on a slow disk."""
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Cellar(Dataset):
    def __init__(self, grapes=5, bottles=48):
        taste = torch.randn(grapes, 9)
        self.rows = torch.cat([each + 0.6 * torch.randn(bottles, 9) for each in taste])
        self.grape = torch.arange(grapes).repeat_interleave(bottles)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, row):
        return {"row": self.rows[row], "grape": self.grape[row]}


class Chunks:
    """Chunks in another order in each epoch."""

    def __init__(self, count, size):
        self.chunks = [list(range(begin, min(begin + size, count))) for begin in range(0, count, size)]

    def __len__(self):
        return sum(map(len, self.chunks))

    def __iter__(self):
        for chunk in random.sample(self.chunks, len(self.chunks)):
            for row in chunk:  # ORIGIN
                yield row


random.seed(3)
torch.manual_seed(3)
cellar = Cellar()
loader = DataLoader(cellar, batch_size=16, sampler=Chunks(len(cellar), 16))
net = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(4):
    total = 0.0
    for batch in loader:
        loss = criterion(net(batch["row"]), batch["grape"].long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(loader):.3f}")
