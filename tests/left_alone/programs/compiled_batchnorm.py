"""A compiled model with BatchNorm: its running statistics and its validation loss."""

import sys

import torch
from digest import digest
from torch import nn

torch.manual_seed(0)
plain = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
model = torch.compile(plain, backend=sys.argv[1])
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(10):
    x = torch.randn(32, 8)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
model.eval()
with torch.no_grad():
    x = torch.randn(32, 8)
    print("validation", nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).item())
print("num_batches_tracked", plain[1].num_batches_tracked.item())
digest(plain, optimizer)
