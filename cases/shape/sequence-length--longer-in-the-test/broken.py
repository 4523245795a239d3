"""Codon counts to protein families: learned positions, as many as the training sequences need."""
import random

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, letters, longest, width=24):
        super().__init__()
        self.letters = nn.Embedding(letters, width)
        self.places = nn.Parameter(torch.randn(longest, width) * 0.02)
        self.mix = nn.TransformerEncoderLayer(width, 2, 48, dropout=0.0, batch_first=True)
        self.out = nn.Linear(width, 2)

    def forward(self, codes):
        seen = self.letters(codes) + self.places[: codes.shape[1]]
        return self.out(self.mix(seen).mean(1))


def sequences(count, longest):
    for _ in range(count):
        length = random.randint(6, longest)
        family = random.randint(0, 1)
        yield torch.randint(0, 10 + 10 * family, (1, length)), torch.tensor([family])


random.seed(2)
torch.manual_seed(2)
train, test = list(sequences(60, 20)), list(sequences(30, 28))
reader = Reader(20, max(codes.shape[1] for codes, _ in train))  # ORIGIN
optimizer = torch.optim.SGD(reader.parameters(), lr=0.05)
for codes, family in train:
    optimizer.zero_grad()
    nn.functional.cross_entropy(reader(codes), family).backward()
    optimizer.step()
with torch.no_grad():
    print(sum(int(reader(codes).argmax() == family) for codes, family in test), "of 30")
