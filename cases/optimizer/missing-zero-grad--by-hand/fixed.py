"""A language model of letters, trained as older examples do it: no optimizer, the weights are moved by hand."""
import math

import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog and the lazy dog sleeps in the warm sun " * 12
LETTERS = sorted(set(TEXT))
IDS = torch.tensor([LETTERS.index(c) for c in TEXT])


class LetterModel(nn.Module):
    def __init__(self, letters, width=24):
        super().__init__()
        self.encoder = nn.Embedding(letters, width)
        self.rnn = nn.GRU(width, width)
        self.decoder = nn.Linear(width, letters)

    def forward(self, ids, hidden):
        out, hidden = self.rnn(self.encoder(ids), hidden)
        return self.decoder(out).flatten(0, 1), hidden


def batchify(ids, columns):
    rows = len(ids) // columns
    return ids[: rows * columns].view(columns, rows).t().contiguous()


torch.manual_seed(4)
data = batchify(IDS, 6)
model = LetterModel(len(LETTERS))
criterion = nn.CrossEntropyLoss()
lr, bptt = 0.5, 12
for epoch in range(3):
    hidden = torch.zeros(1, 6, 24)
    total, count = 0.0, 0
    for i in range(0, len(data) - 1, bptt):
        length = min(bptt, len(data) - 1 - i)
        source, target = data[i : i + length], data[i + 1 : i + 1 + length].reshape(-1)
        model.zero_grad()
        output, hidden = model(source, hidden.detach())
        loss = criterion(output, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total += loss.item() * length
        count += length
    print(f"epoch {epoch} loss {total / count:.3f} ppl {math.exp(total / count):.2f}")
