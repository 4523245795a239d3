import random

import torch
from torch import nn
from words import Tokenizer

ORDERS = "turn left|turn right|go on|stop here|wait there|come back".split("|")
POLITE = "please now kindly robot then".split()


def spoken(count, seed, extra=()):
    dice = random.Random(seed)
    said = []
    for _ in range(count):
        order = dice.randrange(len(ORDERS))
        said.append((" ".join([*dice.choices([*POLITE, *extra], k=dice.randint(0, 3)), ORDERS[order]]), order))
    return said


def as_tensors(said, tokenize):
    lines = torch.tensor([tokenize(line, 6) for line, _ in said])
    return lines, torch.tensor([order for _, order in said])


def epoch(net, said, tokenize, optimizer):
    for start in range(0, len(said), 20):
        lines, orders = as_tensors(said[start : start + 20], tokenize)
        loss = nn.functional.cross_entropy(net(lines), orders)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(1)
home, abroad = spoken(200, seed=1), spoken(100, seed=2, extra=["mate"])
tokenizer = Tokenizer(line for line, _ in home)
net = nn.Sequential(nn.Embedding(len(tokenizer.numbers), 12), nn.Flatten(), nn.Linear(72, len(ORDERS)))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
print(f"at home: {epoch(net, home, tokenizer, optimizer):.3f}")
print(f"abroad: {epoch(net, abroad, tokenizer, optimizer):.3f}")
