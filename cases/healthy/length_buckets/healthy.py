"""Sentences sorted by length and taken in buckets of one length: a batch needs no padding. The length goes with the batch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, count=320):
        self.length = (3 + torch.arange(count) * 8 // count).tolist()
        self.words = [torch.randint(1, 30, (each,)) for each in self.length]
        self.mood = [(each < 15).float().mean() for each in self.words]

    def __len__(self):
        return len(self.words)

    def __getitem__(self, k):
        return self.words[k], self.mood[k], self.length[k]


class Buckets:
    """Batches of one bucket each, the buckets' batches in a random order."""

    def __init__(self, data, size):
        self.batches = [list(range(k, k + size)) for k in range(0, len(data), size)]

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        for k in torch.randperm(len(self.batches)).tolist():
            yield self.batches[k]


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(30, 12), nn.Linear(12, 1)

    def forward(self, words, length):
        return self.out(self.words(words).sum(1) / length[:, None])[:, 0]


torch.manual_seed(6)
data = Sentences()
loader = DataLoader(data, batch_sampler=Buckets(data, 20))
net = Reader()
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for epoch in range(4):
    for words, mood, length in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(net(words, length), mood)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 4))
