"""Mood of short messages: an average over the words that are known, for messages of any length."""
import random

import torch
from torch import nn

WORDS = 50
UNKNOWN = 0


class Mood(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, 8)
        self.gate = nn.Linear(8, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, words):
        known = (words != UNKNOWN).float()
        found = torch.tanh(self.gate(self.table(words))) * known.unsqueeze(-1)
        # One position after the other, as far as the longest message goes.
        total = torch.zeros(len(words), 8)
        for place in range(0, words.shape[1], 4):
            total = total + found[:, place : place + 4].sum(1)
        return self.out(total / known.sum(1, keepdim=True).clamp(min=1)).squeeze(-1)


def messages(rng):
    """Batches of one length each; words that are rare are unknown."""
    while True:
        length = rng.choice([9, 10, 11, 12])
        yield [[rng.randrange(1, WORDS) for _ in range(length)] for _ in range(8)]


rng = random.Random(2)
torch.manual_seed(2)
net = Mood()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for step, batch in enumerate(messages(rng)):
    if step == 200:
        break
    if step == 180:
        batch[5] = [UNKNOWN] * len(batch[5])
        batch = [each + [UNKNOWN] * 4 for each in batch]
    words = torch.tensor(batch)
    mood = (words % 7).float().mean(1) - 3
    loss = nn.functional.mse_loss(net(words), mood)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(f"{step}: {loss.item():.3f}")
