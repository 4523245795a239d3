"""The program's own instruments: their counts with and without a watch."""

import sys
from collections import Counter

import torch
from digest import digest
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

which = sys.argv[1]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.first(x))))


class Dispatches(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


class Calls(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.counts[getattr(func, "__name__", str(func))] += 1
        return func(*args, **(kwargs or {}))


class Counted(torch.Tensor):
    counts = Counter()  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.counts[getattr(func, "__name__", str(func))] += 1
        return super().__torch_function__(func, types, args, kwargs or {})


def steps(count, wrap=lambda x: x, poison=False):
    for step in range(count):
        x = torch.randn(16, 4)
        labels = (x.sum(1) > 0).long()
        if step == count - 2 and poison:
            digest(model, optimizer)
            x[0, 0] = float("nan")
        x = wrap(x)
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
if which == "flops":
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as first:
        steps(6)
    steps(3)
    with FlopCounterMode(display=False) as second:
        steps(6, poison=True)
    print(first.get_total_flops(), second.get_total_flops(), sorted(second.get_flop_counts()))
elif which == "profiler":
    from torch.profiler import ProfilerActivity, profile

    for poison in (False, True):
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            steps(6, poison=poison)
        for each in sorted(seen.key_averages(), key=lambda each: each.key):
            if each.key.startswith(("aten::", "autograd::", "Optimizer")):
                print(each.key, each.count)
elif which == "dispatch":
    for count in (5, 8):
        with Dispatches() as mode:
            steps(count, poison=count == 8)
        print(sorted(mode.counts.items()))
        steps(2)
elif which == "function":
    for count in (5, 8):
        with Calls() as mode:
            steps(count, poison=count == 8)
        print(sorted(mode.counts.items()))
        steps(2)
elif which == "subclass":
    steps(12, lambda x: x.as_subclass(Counted), poison=True)
    print(sorted(Counted.counts.items()))
elif which == "anomaly":
    with torch.autograd.set_detect_anomaly(True):
        for _ in range(3):
            x = torch.randn(4, 4)
            try:
                loss = torch.log(model(x) * 0 - 1).sum()
                loss.backward()
            except RuntimeError as error:
                print(str(error).splitlines()[0])
            optimizer.zero_grad()
digest(model, optimizer)
