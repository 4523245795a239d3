"""Prints the tracebacks of exceptions that it catches in each step; the rejected call varies."""

import logging
import sys
import traceback

import torch
import torch.nn.functional as F
from torch import nn

logging.basicConfig(stream=sys.stdout, format="%(message)s")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return F.layer_norm(self.layers(x), (3,))


class Counted(nn.Linear):
    """Has its own hook, so PyTorch takes the slow path through its call in any run."""

    def __init__(self, *args):
        super().__init__(*args)
        self.register_forward_pre_hook(lambda *_: None)


model, counted = Net(), Counted(4, 3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
labels = torch.zeros(8, dtype=torch.long)

ATTEMPTS = [
    lambda: F.cross_entropy(model(torch.randn(8, 4)), labels[:7]),
    lambda: criterion(torch.rand(2, 3), labels[:3]),
    lambda: F.layer_norm(torch.rand(2, 3), (4,)),
    lambda: model(torch.rand(2, 5)),
    lambda: counted(torch.rand(2, 5)),
    lambda: torch.rand(3) @ torch.rand(4),
    lambda: torch.stft(torch.rand(3), 400, window=torch.ones(3)),
    lambda: torch.rand(2, 3).backward(),
    lambda: F.one_hot(torch.tensor([-1])),
    lambda: 3 - torch.rand(3)[:, 0],
    lambda: torch.einsum("ij,jk->ik", torch.rand(2, 3), torch.rand(2, 3)),
    lambda: F.cross_entropy("neither", "is a tensor"),
]


def outer(attempt):
    """The first traceback is printed as a part of the second."""
    try:
        attempt()
    except Exception as error:
        raise ValueError("in a function around it") from error


for step in range(12):
    for number, attempt in enumerate(ATTEMPTS):
        try:
            (outer if number % 3 == 0 else lambda each: each())(attempt)
        except Exception:
            print(step, number, traceback.format_exc())
            if step % 4 == 0:
                logging.exception("logged")
    assert sys.gettrace() is None
    with torch.device("cpu"):
        try:
            F.mse_loss(torch.rand(3), torch.rand(2, 2))
        except RuntimeError:
            traceback.print_exc(file=sys.stdout)
    optimizer.zero_grad()
    F.cross_entropy(model(torch.randn(8, 4)), labels).backward()
    optimizer.step()
