"""A one-layer model of DNA, base by base."""

import math

import torch
from torch import nn

BASES, WIDTH = 4, 24


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x, mask):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(WIDTH)
        scores = scores.masked_fill(mask, -1e4)  # ORIGIN
        weights = torch.softmax(scores, dim=2)
        return x + torch.bmm(weights, self.value(x))


class Genome(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.base, self.place = nn.Embedding(BASES, WIDTH), nn.Embedding(length, WIDTH)
        self.layer, self.out = Layer(), nn.Linear(WIDTH, BASES)
        self.register_buffer("past", torch.ones(length, length, dtype=torch.bool).tril())

    def forward(self, strand):
        length = strand.shape[1]
        x = self.base(strand) + self.place.weight[:length]
        return self.out(self.layer(x, self.past[:length, :length]))


def strands(count, length):
    codon = torch.randint(0, BASES, (count, 3))
    noise = torch.randint(0, BASES, (count, length)) * (torch.rand(count, length) < 0.1)
    return (codon.repeat(1, length // 3) + noise) % BASES


torch.manual_seed(8)
model = Genome(length=27)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(30):
    strand = strands(32, 27)
    inputs, labels = strand[:, :-1], strand[:, 1:]
    loss = nn.functional.cross_entropy(model(inputs).transpose(1, 2), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
