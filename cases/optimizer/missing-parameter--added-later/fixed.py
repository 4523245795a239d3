"""A classifier that gets an adapter for each new task."""

import torch
from torch import nn

torch.manual_seed(0)


class Adapter(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.down, self.up = nn.Linear(d, 4), nn.Linear(4, d)
        nn.init.normal_(self.up.weight, std=0.01)

    def forward(self, x):
        return x + self.up(torch.relu(self.down(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(10, 32)
        self.adapters = nn.ModuleDict()
        self.out = nn.Linear(32, 3)

    def add_task(self, name):
        self.adapters[name] = Adapter(32)

    def forward(self, x, task=None):
        h = torch.relu(self.inp(x))
        return self.out(self.adapters[task](h) if task else h)


m = Model()
opt = torch.optim.Adam(m.parameters(), 1e-2)
x = torch.randn(640, 10)
y = x[:, :3].argmax(1)
for task in (None, "nights", "weekends"):
    if task:
        m.add_task(task)
        opt.add_param_group({"params": m.adapters[task].parameters()})
    for rows in torch.randperm(640).split(32):
        opt.zero_grad()
        nn.functional.cross_entropy(m(x[rows], task), y[rows]).backward()
        opt.step()
print(list(m.adapters))
