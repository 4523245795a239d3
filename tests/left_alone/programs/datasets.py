"""Datasets that count: a map, a stream, a sampler, a collate function, and a generator."""

import sys
from collections import Counter

import torch
from digest import digest
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

counts = Counter()


class Rows(Dataset):
    def __init__(self):
        self.x = torch.randn(48, 4)

    def __len__(self):
        counts["len"] += 1
        return len(self.x)

    def __getitem__(self, index):
        counts["getitem"] += 1
        x = self.x[index] + 0.1 * torch.randn(4)
        return x, x.sum().reshape(1)


class Stream(IterableDataset):
    def __iter__(self):
        counts["iter"] += 1
        for index in range(48):
            counts["next"] += 1
            x = torch.randn(4)
            yield (
                (x, x.sum().reshape(1))
                if counts["iter"] < 3 or index != 13
                else (x.log(), x.sum().reshape(1))
            )


class Order(Sampler):
    def __iter__(self):
        counts["sampler"] += 1
        return iter(torch.randperm(48).tolist())

    def __len__(self):
        counts["sampler len"] += 1
        return 48


def collate(rows):
    counts["collate"] += 1
    return [torch.stack(each) for each in zip(*rows, strict=True)]


def batches():
    """Hand-written batches: each draw happens once."""
    for _ in range(6):
        counts["generator"] += 1
        x = torch.randn(8, 4)
        yield x, x.sum(1, keepdim=True)


def source(epoch):
    if which == "map":
        return DataLoader(rows, batch_size=8, sampler=Order(), collate_fn=collate)
    if which == "stream":
        return DataLoader(Stream(), batch_size=8, collate_fn=collate)
    return batches()


which = sys.argv[1]
torch.manual_seed(0)
rows = Rows()
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    if epoch == 2:
        digest(model, optimizer)
        rows.x[13, 1] = float("nan")
    for x, y in source(epoch):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), sorted(counts.items()))
try:
    for x, _ in source(3):
        model(x[:, :3])
except RuntimeError as error:
    print(error)
print(sorted(counts.items()))
digest(model, optimizer)
