"""A scripted model with BatchNorm, and a buffer that its forward increments."""

import warnings

import torch
from digest import digest
from torch import nn

warnings.simplefilter("ignore")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, 1)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return self.head(torch.relu(self.norm(self.inner(x))))


torch.manual_seed(0)
model = torch.jit.script(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(10):
    x = torch.randn(32, 8)
    if step == 6:
        x[0, 0] = float("nan")
    target = torch.nan_to_num(x).sum(1, keepdim=True)
    loss = nn.functional.mse_loss(torch.nan_to_num(model(x)), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
print("num_batches_tracked", model.norm.num_batches_tracked.item(), "calls", model.calls.item())
digest(model, optimizer)
