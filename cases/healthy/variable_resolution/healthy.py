"""Pictures of many sizes, bucketed by size, through a fully convolutional net with spatial pyramid pooling."""
from collections import defaultdict
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Textures(Dataset):
    sizes = [(12, 12), (16, 10), (9, 21), (24, 24)]

    def __init__(self, n):
        self.shape = [self.sizes[i * 7 % 4] for i in range(n)]
        self.label = [(i // 4) % 3 for i in range(n)]

    def __len__(self):
        return len(self.shape)

    def __getitem__(self, i):
        h, w = self.shape[i]
        g = torch.Generator().manual_seed(i)
        period = (2, 3, 5)[self.label[i]]
        yy, xx = torch.arange(h).view(-1, 1), torch.arange(w).view(1, -1)
        wave = torch.cos(2 * torch.pi * (yy + xx) / period)
        return (wave + 0.3 * torch.randn(h, w, generator=g)).unsqueeze(0), self.label[i]


class SizeBuckets(Sampler):
    def __init__(self, shapes, batch, seed):
        self.batch, self.rng = batch, random.Random(seed)
        self.buckets = defaultdict(list)
        for i, s in enumerate(shapes):
            self.buckets[s].append(i)

    def __len__(self):
        return sum(-(-len(b) // self.batch) for b in self.buckets.values())

    def __iter__(self):
        batches = []
        for bucket in self.buckets.values():
            order = self.rng.sample(bucket, len(bucket))
            batches += [order[k : k + self.batch] for k in range(0, len(order), self.batch)]
        self.rng.shuffle(batches)
        return iter(batches)


class PyramidNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU())
        self.pools = nn.ModuleList([nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d(2)])
        self.fc = nn.Linear(12 * 5, 3)

    def forward(self, x):
        f = self.body(x)
        return self.fc(torch.cat([p(f).flatten(1) for p in self.pools], dim=1))


torch.manual_seed(210)
data = Textures(100)
loader = DataLoader(data, batch_sampler=SizeBuckets(data.shape, batch=8, seed=0))
net = PyramidNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(4):
    right, shapes = 0, set()
    for x, y in loader:
        logits = net(x)
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        right += (logits.argmax(1) == y).sum().item()
        shapes.add(tuple(x.shape))
    print(f"epoch {epoch}: {len(shapes)} batch shapes, accuracy {right / len(data):.2f}")
