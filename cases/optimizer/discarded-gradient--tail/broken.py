"""A tagger that steps once for eight small batches."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, ACCUMULATE = 16, 8


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 24)
        self.rnn = nn.GRU(24, 24, batch_first=True)
        self.out = nn.Linear(24, 5)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


torch.manual_seed(0)
ids = torch.randint(0, 50, (208, 8))
tags = ids % 5
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(5):
    optimizer.zero_grad()  # ORIGIN
    total = 0.0
    for number, rows in enumerate(torch.randperm(len(ids)).split(BATCH), 1):
        loss = F.cross_entropy(model(ids[rows]).flatten(0, 1), tags[rows].flatten())
        (loss / ACCUMULATE).backward()
        if number % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
        total += loss.item()
    print(f"epoch {epoch} loss {total / number:.4f}")
