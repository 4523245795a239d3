"""A wrapper subclass with __torch_dispatch__ that counts, as parameters and as data."""

from collections import Counter

import torch
from torch import nn
from torch.utils._pytree import tree_map_only


class Wrapped(torch.Tensor):
    counts = Counter()  # noqa: RUF012

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner):
        self.inner = inner.detach()

    def __repr__(self):
        Wrapped.counts["repr"] += 1
        return "Wrapped"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.counts[str(func)] += 1
        args, kwargs = tree_map_only(Wrapped, lambda each: each.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapped, func(*args, **kwargs))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
for layer in (model[0], model[2]):
    layer.weight = nn.Parameter(Wrapped(layer.weight.detach()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
for step in range(10):
    x = torch.randn(8, 4)
    if step == 7:
        x[0, 0] = float("nan")
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if step != 7:
        optimizer.step()
    print(step, sorted(Wrapped.counts.items()))
try:
    model(Wrapped(torch.randn(8, 5)))
except RuntimeError as error:
    print(error)
print(sorted(Wrapped.counts.items()))
print(model[0].weight.inner.sum().item(), torch.rand(1).item())
