import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

EOS, PAD = 0, 12
VOCAB = 13


class Countdown(Dataset):
    """From a number down to one, and then the end."""

    def __len__(self):
        return 220

    def __getitem__(self, k):
        return {"tokens": list(range(3 + k * 7 % (VOCAB - 4), 0, -1)) + [EOS]}


class Pad:
    def __init__(self, value):
        self.value = value

    def __call__(self, rows):
        tokens = torch.full((len(rows), max(len(row["tokens"]) for row in rows)), self.value)
        for place, row in zip(tokens, rows):
            place[: len(row["tokens"])] = torch.tensor(row["tokens"])
        return tokens


def train(epochs=3):
    torch.manual_seed(7)
    body, head = nn.Embedding(VOCAB, 24), nn.Linear(24, VOCAB)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=1e-2)
    loader = DataLoader(Countdown(), batch_size=20, shuffle=True, collate_fn=Pad(PAD))
    for epoch in range(epochs):
        for tokens in loader:
            optimizer.zero_grad()
            scores = head(torch.tanh(body(tokens[:, :-1])))
            loss = criterion(scores.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
        print(epoch, round(loss.item(), 4))


train()
