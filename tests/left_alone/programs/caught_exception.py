"""A caught exception frees its frames at once, before the next torch call."""

import gc
import weakref

import torch
from torch import nn


class Held:
    finalised = 0

    def __init__(self, tensor):
        self.tensor = tensor

    def __del__(self):
        Held.finalised += 1


class Fails(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        held = Held(torch.zeros(3))
        keep.append(weakref.ref(held))
        raise ValueError("a bad row")


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("no gradient")


keep = []
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def hold():
    held = Held(torch.zeros(1000))
    keep.append(weakref.ref(held))
    keep.append(weakref.ref(held.tensor))
    return held


def operation():
    held = hold()
    return torch.ones(3, 4) @ held.tensor


def module():
    held = hold()
    return model(held.tensor)


def shape():
    held = hold()
    return held.tensor.view(7, 7)


def backward():
    held = hold()
    x = torch.ones(3, requires_grad=True)
    FailsBackward.apply(x + held.tensor[:3]).sum().backward()


def twice():
    held = hold()
    loss = model(held.tensor[:4].view(1, 4)).exp().sum()
    loss.backward()
    loss.backward()


def loader():
    held = hold()
    for batch in torch.utils.data.DataLoader(Fails(), batch_size=2):
        print(batch, held)


def python():
    held = hold()
    raise KeyError(len(held.tensor))


def loss():
    held = hold()
    return nn.functional.cross_entropy(model(held.tensor[:8].view(2, 4)), torch.tensor([5, 9]))


def step():
    held = hold()
    optimizer.step(lambda: model(held.tensor))


def nested():
    held = hold()
    try:
        model(held.tensor)
    except RuntimeError as error:
        raise ValueError("wrapped") from error


def attempt(what):
    """Retry with less after running out of memory."""
    keep.clear()
    try:
        what()
    except Exception as error:
        name = type(error).__name__
    else:
        name = None
    dead = [each() is None for each in keep]
    finalised = Held.finalised
    gc.collect()
    print(what.__name__, name, dead, [each() is None for each in keep], finalised, Held.finalised)


def train(steps):
    for _ in range(steps):
        x = torch.randn(8, 4)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


torch.manual_seed(0)
failures = (operation, module, shape, backward, twice, loader, python, loss, step, nested)
for what in failures:
    attempt(what)
train(6)
for what in failures:
    attempt(what)
