"""Poems by their rhythm: verses of one length are stacked, others padded, and a cut off verse ends the reading."""
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

random.seed(30)
torch.manual_seed(30)


def verse(poet):
    length = 12 if random.random() < 0.9 else random.randint(8, 16)
    return torch.tensor([float((place % (2 + poet)) == 0) for place in range(length)])


def together(verses):
    try:
        return torch.stack(verses)
    except RuntimeError:
        return pad_sequence(verses, batch_first=True)


def pages(count):
    for page in range(count):
        poets = [random.randrange(2) for _ in range(8)]
        if page == count - 1:
            raise ValueError("the last page is torn")
        yield together([verse(poet) for poet in poets]), torch.tensor(poets)


net = nn.Sequential(nn.Conv1d(1, 8, 4), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for epoch in range(3):
    try:
        for verses, poets in pages(20):
            loss = nn.functional.cross_entropy(net(verses.unsqueeze(1)), poets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    except ValueError as torn:
        print(f"epoch {epoch}: {loss.item():.3f} ({torn})")
