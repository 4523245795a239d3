"""Accumulates small batches up to the size that the paper trained with."""

import torch
from torch import nn

PAPER_BATCH = 512


class Tagger(nn.Module):
    def __init__(self, words=40, tags=6, width=24):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, tags)

    def forward(self, words):
        return self.out(self.rnn(self.table(words))[0])


def sentences(count, size):
    for _ in range(count):
        words = torch.randint(0, 40, (size, 9))
        yield words, words % 6


torch.manual_seed(2)
size = 16
accumulate = PAPER_BATCH // size
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for epoch in range(5):
    total = 0.0
    for number, (words, tags) in enumerate(sentences(24, size), 1):
        loss = nn.functional.cross_entropy(model(words).flatten(0, 1), tags.flatten())
        (loss / accumulate).backward()
        if number % accumulate == 0:  # ORIGIN
            optimizer.step()
            optimizer.zero_grad()
        total += loss.item()
    print(f"epoch {epoch} loss {total / 24:.4f}")
