"""Weather reports and what follows them, two in a row with a mark between; the words are counted, then the mark gets its number."""
import random

import torch
from torch import nn

random.seed(2)
SKIES, WINDS = ["clear", "grey", "dark", "pale"], ["calm", "breeze", "gale"]
days = [(random.choice(SKIES), random.choice(WINDS)) for _ in range(240)]
number_of = {word: n for n, word in enumerate(SKIES + WINDS)}


class Follows(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.table = nn.Embedding(rows, 8)
        self.rain = nn.Linear(8, 2)

    def forward(self, ids):
        return self.rain(self.table(ids).mean(1))


torch.manual_seed(2)
number_of["then"] = len(number_of)
many = len(number_of)
net = Follows(many)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for start in range(0, 200, 20):
    pairs = [(*days[k], "then", *days[k + 1]) for k in range(start, start + 20)]
    ids = torch.tensor([[number_of[word] for word in each] for each in pairs])
    wet = torch.tensor([int("dark" in each) for each in pairs])
    loss = nn.functional.cross_entropy(net(ids), wet)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(round(loss.item(), 3))
