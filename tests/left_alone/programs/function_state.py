"""Autograd Functions that keep state in Python: a running range, counters, prints."""

import torch
from digest import digest
from torch import nn


class FakeQuantise(torch.autograd.Function):
    low, high, calls, backward_calls = 0.0, 0.0, 0, 0

    @staticmethod
    def forward(ctx, x):
        cls = FakeQuantise
        cls.calls += 1
        low, high = x.detach().nan_to_num().min().item(), x.detach().nan_to_num().max().item()
        cls.low = 0.9 * cls.low + 0.1 * low
        cls.high = 0.9 * cls.high + 0.1 * high
        scale = max(cls.high - cls.low, 1e-3) / 255
        if cls.calls % 10 == 0:
            print("range", cls.low, cls.high)
        return (x / scale).round() * scale

    @staticmethod
    def backward(ctx, gradient):
        FakeQuantise.backward_calls += 1
        # The gradient is damped more with each call.
        return gradient / (1 + 0.05 * FakeQuantise.backward_calls)


class Reverse(torch.autograd.Function):
    strength = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        Reverse.strength.append(1 / (1 + len(Reverse.strength)))
        print("backward", len(Reverse.strength))
        return -Reverse.strength[-1] * gradient


torch.manual_seed(0)
model = nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(15):
    x = torch.randn(16, 4)
    if step == 12:
        digest(model, optimizer)
        x[0, 0] = float("nan")
    h = FakeQuantise.apply(model[0](x)).relu()
    h = FakeQuantise.apply(model[1](h)).relu()
    loss = nn.functional.mse_loss(model[2](h), torch.nan_to_num(x).sum(1, keepdim=True))
    loss = loss + 0.01 * Reverse.apply(h).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
print("calls", FakeQuantise.calls, FakeQuantise.backward_calls, len(Reverse.strength))
print("range", FakeQuantise.low, FakeQuantise.high)
digest(model, optimizer)
