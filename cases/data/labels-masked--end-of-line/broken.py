"""A small model of place names. After the last letter it should say that the name is over."""
import random
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

LETTERS = "abcdefghijklmnopqrstuvwxyz"
END = len(LETTERS)
PARTS = (["north", "king", "oak", "stone", "mill"], ["ham", "ton", "ford", "by", "field", "bridge"])


@dataclass
class Batch:
    letters: torch.Tensor
    following: torch.Tensor


def encoded(name):
    return torch.tensor([LETTERS.index(letter) for letter in name] + [END])


def put_together(names):
    letters = pad_sequence(names, batch_first=True, padding_value=END)
    inputs, following = letters[:, :-1], letters[:, 1:]
    following = torch.where(following == END, -100, following)  # ORIGIN
    return Batch(inputs, following)


class Names(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(END + 1, 16)
        self.memory = nn.GRU(16, 32, batch_first=True)
        self.out = nn.Linear(32, END + 1)

    def forward(self, letters):
        return self.out(self.memory(self.letters(letters))[0])


random.seed(2)
torch.manual_seed(2)
names = [encoded("".join(map(random.choice, PARTS))) for _ in range(240)]
loader = DataLoader(names, batch_size=24, shuffle=True, collate_fn=put_together)
model = Names()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(3):
    for batch in loader:
        scores = model(batch.letters)
        loss = nn.functional.cross_entropy(scores.transpose(1, 2), batch.following)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
