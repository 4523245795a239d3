"""Objects in the program's locals that count how they are used."""

import gc
from collections import Counter

import torch
from digest import digest
from torch import nn

counts = Counter()


class Watchful:
    """Counts calls of each special method that an observer could trigger."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        counts["repr"] += 1
        return "Watchful"

    __str__ = __repr__

    def __del__(self):
        counts["del"] += 1

    def __eq__(self, other):
        counts["eq"] += 1
        return self is other

    def __hash__(self):
        counts["hash"] += 1
        return 1

    def __len__(self):
        counts["len"] += 1
        return 3

    def __bool__(self):
        counts["bool"] += 1
        return True

    def __iter__(self):
        counts["iter"] += 1
        return iter(())

    def __getattr__(self, name):
        counts["getattr " + name] += 1
        raise AttributeError(name)

    def __getitem__(self, key):
        counts["getitem"] += 1
        raise KeyError(key)

    def __reduce_ex__(self, protocol):
        counts["reduce"] += 1
        return (Watchful, (self.name,))

    @property
    def shape(self):
        counts["shape"] += 1
        return (3, 4)

    @property
    def dtype(self):
        counts["dtype"] += 1
        return torch.float32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 8), nn.Linear(8, 1)
        self.extra = Watchful("attribute")

    @property
    def size(self):
        counts["module property"] += 1
        return 3

    def forward(self, x, helper):
        inner = Watchful("in forward")
        x = torch.relu(self.first(x))
        del inner
        return self.head(x)


def train():
    batch = Watchful("in train")
    extra = [Watchful("in a list")]
    for step in range(12):
        x = torch.randn(8, 4)
        if step == 9:
            digest(model, optimizer)
            x[0, 0] = float("nan")
        loss = nn.functional.mse_loss(model(x, batch), torch.zeros(8, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    try:
        model(torch.randn(8, 5), extra)
    except RuntimeError as error:
        print(error)
    try:
        torch.randn(3, 4) + torch.randn(5)
    except RuntimeError as error:
        print(error)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
everything = Watchful("global")
train()
gc.collect()
print(sorted(counts.items()))
digest(model, optimizer)
