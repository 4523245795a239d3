"""How deep modules can be nested until Python's recursion limit is reached."""

import sys

import torch
from torch import nn


class Wrapper(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def works(depth, x):
    module = nn.Identity()
    for _ in range(depth):
        module = Wrapper(module)
    try:
        # `parameters()` recurses too; only the call matters here.
        module(x)
    except RecursionError:
        return False
    return True


def deepest(x):
    low, high = 1, 600
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if works(middle, x) else (low, middle - 1)
    return low


print("limit", sys.getrecursionlimit(), file=sys.stderr)
first = deepest(torch.zeros(2, 4))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
print(first, deepest(torch.zeros(2, 4)), sys.getrecursionlimit())
