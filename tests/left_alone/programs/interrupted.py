"""A SIGINT in the middle of a forward pass that nobody catches."""

import os
import signal

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
calls = 0


def interrupt(module, args, output):
    global calls
    calls += 1
    if calls == 6:
        os.kill(os.getpid(), signal.SIGINT)


model[1].register_forward_hook(interrupt)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
