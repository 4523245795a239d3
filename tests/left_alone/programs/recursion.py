"""How deep the program can call until Python's recursion limit is reached."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


def below(depth, action):
    return action() if depth == 0 else below(depth - 1, action)


def deepest(action):
    low, high = 1, sys.getrecursionlimit()
    while low < high:
        middle = (low + high + 1) // 2
        try:
            below(middle, action)
            low = middle
        except RecursionError:
            high = middle - 1
    return low


model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, label = torch.rand(8, 4), torch.zeros(8, dtype=torch.long)
print(sys.getrecursionlimit(), deepest(lambda: None))
for _ in range(4):
    print(
        deepest(lambda: x + x),
        deepest(lambda: F.cross_entropy(x, label)),
        deepest(lambda: model(x)),
    )
    optimizer.zero_grad()
    F.cross_entropy(model(x), label).backward()
    optimizer.step()
