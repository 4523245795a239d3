"""A model of rhymes. The collate function makes numbers of the lines, and masks what it has filled up."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader

LINES = [f"{one} {verb} the {two}" for one in ("cat", "bat", "rat", "hat") for verb in ("met", "let", "got", "saw it hit")
         for two in ("mat", "flat", "vat", "pot by the gate", "net")]  # fmt: skip


@dataclass
class Words:
    words: list[str]
    end: int = 0

    def numbers(self, line: str) -> list[int]:
        return [1 + self.words.index(each) for each in line.split()] + [self.end]


@dataclass
class Filled:
    vocabulary: Words

    def __call__(self, lines: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [torch.tensor(self.vocabulary.numbers(each)) for each in lines]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self.vocabulary.end)
        labels = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
        return tokens, labels


torch.manual_seed(0)
vocabulary = Words(sorted({word for line in LINES for word in line.split()}))
size = len(vocabulary.words) + 1
body, head = nn.LSTM(16, 24, batch_first=True), nn.Linear(24, size)
table = nn.Embedding(size, 16)
optimizer = torch.optim.Adam([*table.parameters(), *body.parameters(), *head.parameters()], lr=5e-3)
loader = DataLoader(LINES, batch_size=16, shuffle=True, collate_fn=Filled(vocabulary))
for epoch in range(3):
    for tokens, labels in loader:
        states, _ = body(table(tokens[:, :-1]))
        loss = nn.functional.cross_entropy(head(states).transpose(1, 2), labels[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 3))
