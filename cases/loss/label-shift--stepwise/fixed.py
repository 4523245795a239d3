"""Dates spelt out: a decoder writes '1987-03-14' for 'march 14 1987', one character at a time."""

import random

import torch
import torch.nn.functional as F
from torch import nn

MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
SYMBOLS = ["<pad>", "<go>", "<end>", *sorted(set("".join(MONTHS) + "0123456789 -"))]
CODE = {symbol: number for number, symbol in enumerate(SYMBOLS)}
PAD, GO, END = 0, 1, 2


def written(rng):
    year, month, day = rng.randint(1950, 2020), rng.randint(1, 12), rng.randint(1, 28)
    return f"{MONTHS[month - 1]} {day} {year}", f"{year}-{month:02d}-{day:02d}"


def encoded(texts, framed):
    rows = [[GO, *map(CODE.get, each), END] if framed else [*map(CODE.get, each)] for each in texts]
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


class Speller(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(len(SYMBOLS), width, padding_idx=PAD)
        self.read = nn.GRU(width, width, batch_first=True)
        self.write = nn.GRUCell(width, width)
        self.out = nn.Linear(width, len(SYMBOLS))

    def forward(self, source, answer):
        _, state = self.read(self.embed(source))
        state, said = state[0], []
        for token in answer[:, :-1].unbind(1):
            state = self.write(self.embed(token), state)
            said.append(self.out(state))
        return torch.stack(said, dim=1)


def main():
    torch.manual_seed(0)
    rng = random.Random(4)
    model = Speller()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(60):
        long, short = zip(*(written(rng) for _ in range(32)), strict=True)
        source, answer = encoded(long, framed=False), encoded(short, framed=True)
        logits = model(source, answer)
        wanted = answer[:, 1:]
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            print(f"step {step + 1} loss {loss.item():.3f}")


main()
