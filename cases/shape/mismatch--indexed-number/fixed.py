"""Surnames to languages, letter by letter; written for torch 0.3 and dug out again."""
import torch
import torch.nn as nn

LETTERS = "abcdefghijklmnopqrstuvwxyz"
NAMES = [("rossi", 0), ("bianchi", 0), ("schmidt", 1), ("becker", 1), ("garcia", 2), ("lopez", 2)]


def encode(name):
    steps = torch.zeros(len(name), 1, len(LETTERS))
    for i, letter in enumerate(name):
        steps[i, 0, LETTERS.index(letter)] = 1
    return steps


class Reader(nn.Module):
    def __init__(self, width, languages):
        super().__init__()
        self.rnn = nn.RNN(len(LETTERS), width)
        self.out = nn.Linear(width, languages)

    def forward(self, steps):
        _, last = self.rnn(steps)
        return self.out(last[0])


torch.manual_seed(1)
reader = Reader(32, 3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(reader.parameters(), lr=0.05)
total = 0
for epoch in range(5):
    for name, language in NAMES:
        optimizer.zero_grad()
        loss = criterion(reader(encode(name)), torch.tensor([language]))
        loss.backward()
        optimizer.step()
        total += loss.data.item()
    print(epoch, total)
