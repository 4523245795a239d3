"""Spelling, one letter at a time: each letter is predicted from the one before it."""

import torch
from torch import nn

torch.manual_seed(0)
text = "hello hello hello"
letters = sorted(set(text))
codes = torch.tensor([letters.index(each) for each in text])


class Speller(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(letters), 8)
        self.head = nn.Linear(8, len(letters))

    def forward(self, letter):
        return self.head(self.embed(letter))


model = Speller()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for place in range(len(codes) - 1):
        logits = model(codes[place : place + 1])
        loss = nn.functional.cross_entropy(logits, codes[place + 1 : place + 2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
