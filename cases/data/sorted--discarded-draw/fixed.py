"""Which machine makes this hum? Clips lie in a folder for each machine."""
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MACHINES = ["lathe", "press", "saw"]


class Hums(Dataset):
    def __init__(self, clips_each):
        generator = torch.Generator().manual_seed(4)
        self.clips = [
            (torch.randn(12, generator=generator) + 1.5 * nn.functional.one_hot(torch.tensor(number * 4), 12), number)
            for number in range(len(MACHINES))
            for _ in range(clips_each)
        ]

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        return self.clips[index]


class Batches:
    """All clips once in an epoch, in whole batches."""

    def __init__(self, size, batch, seed):
        self.size, self.batch, self.draw = size, batch, random.Random(seed)

    def __len__(self):
        return self.size // self.batch

    def _order(self):
        order = list(range(self.size))
        order = self.draw.sample(order, len(order))
        return order

    def __iter__(self):
        order = self._order()
        while len(order) >= self.batch:
            yield order[: self.batch]
            order = order[self.batch :]


torch.manual_seed(4)
hums = Hums(120)
loader = DataLoader(hums, batch_sampler=Batches(len(hums), 24, seed=4))
net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, len(MACHINES)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(4):
    for clips, machine in loader:
        loss = nn.functional.cross_entropy(net(clips), machine)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
