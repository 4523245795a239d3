"""Which articles are read to the end? Counts of words and shares spread over several powers of ten."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader


def articles(count, seed):
    source = torch.Generator().manual_seed(seed)
    words = torch.exp(6.2 + 0.9 * torch.randn(count, generator=source))
    shares = torch.exp(3.0 + 1.3 * torch.randn(count, generator=source))
    age = 10 * torch.rand(count, generator=source)
    score = 0.8 * shares.log() - words.log() + 0.2 * age + 0.4 * torch.randn(count, generator=source)
    return torch.stack([words, shares, age], dim=1), (score > score.median()).long()


def magnitudes(table):
    """The first two columns as powers of ten."""
    return torch.cat([table[:, :2].log() / math.log(10), table[:, 2:]], dim=1)


def batches_of(table, labels, size, shuffle):
    pairs = [(row, label) for row, label in zip(table, labels)]
    return DataLoader(pairs, batch_size=size, shuffle=shuffle)


torch.manual_seed(1)
train_table, train_labels = articles(640, seed=1)
test_table, test_labels = articles(200, seed=2)
train = batches_of(magnitudes(train_table), train_labels, 32, shuffle=True)
test = batches_of(magnitudes(test_table), test_labels, 100, shuffle=False)

net = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(3):
    net.train()
    for rows, labels in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(rows), labels).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        right = sum((net(rows).argmax(1) == labels).sum().item() for rows, labels in test)
    print(f"epoch {epoch}: {right / len(test_labels):.2f} right")
