"""Walking or cycling? Reads GPS fixes one after the other."""
from itertools import islice

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


def fixes(seed):
    """(seconds, metres, is_bike) between successive GPS fixes, endless."""
    g = torch.Generator().manual_seed(seed)
    n = 0
    while True:
        bike = int(torch.randint(2, (), generator=g))
        seconds = torch.randint(1, 6, (), generator=g).float()
        if n == 300:
            seconds = seconds * 0
        metres = seconds.clamp(min=1) * (1.4 + 3.5 * bike + 0.4 * torch.randn((), generator=g))
        yield seconds, metres, bike
        n += 1


class Trips(IterableDataset):
    def __init__(self, count, window=4, seed=0):
        self.count, self.window, self.seed = count, window, seed

    def __iter__(self):
        source = fixes(self.seed)
        for _ in range(self.count):
            chunk = list(islice(source, self.window))
            seconds = torch.stack([c[0] for c in chunk])
            metres = torch.stack([c[1] for c in chunk])
            speed = metres / seconds.clamp(min=1)
            majority = int(sum(c[2] for c in chunk) > self.window / 2)
            yield speed, majority


torch.manual_seed(6)
net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.02)
seen = 0
for speed, label in DataLoader(Trips(160), batch_size=8):
    loss = nn.functional.cross_entropy(net(speed / 5), label)
    opt.zero_grad()
    loss.backward()
    opt.step()
    seen += len(label)
    if seen % 40 == 0:
        print(f"{seen:4d} windows  loss {loss.item():.4f}")
