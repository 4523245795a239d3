"""A few healthy steps, one finding, and an output file if it may write one."""

import torch
from digest import digest
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x = torch.randn(8, 4)
    if step == 5:
        digest(model, optimizer)
        x[1, 1] = float("nan")
    loss = nn.functional.mse_loss(model(x), torch.zeros(8, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
digest(model, optimizer)
