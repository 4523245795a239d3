"""The program's saved-tensor hooks: how often they pack and unpack."""

import torch
from digest import digest
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

counts = {"pack": 0, "unpack": 0}


def pack(tensor):
    counts["pack"] += 1
    return tensor * 1


def unpack(tensor):
    counts["unpack"] += 1
    return tensor


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    x = torch.randn(8, 4)
    if step == 9:
        digest(model, optimizer)
        x[0, 0] = float("inf")
    with saved_tensors_hooks(pack, unpack):
        loss = nn.functional.mse_loss(model(x), torch.zeros(8, 1))
        if step % 3 == 0:
            optimizer.zero_grad()
            loss.backward()
    if step % 3:
        optimizer.zero_grad()
        loss.backward()
    optimizer.step()
    if step == 5:
        with saved_tensors_hooks(pack, unpack):
            try:
                model(torch.randn(8, 4) @ torch.randn(5, 4))
            except RuntimeError as error:
                print(error)
    print(step, loss.item(), counts)
with save_on_cpu():
    model(torch.randn(8, 4)).sum().backward()
digest(model, optimizer)
