"""Standard functions are patched and still patched when the program ends."""

import builtins
import json
import os
import pathlib
import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(8, 4)
    if step == 4:
        x[0] = float("nan")
    loss = nn.functional.mse_loss(model(x), torch.zeros(8, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained", flush=True)


def broken(*args, **kwargs):
    raise LookupError("patched by the program")


which = sys.argv[1]
if which == "json":
    json.dumps = json.dump = broken
elif which == "open":
    builtins.open = pathlib.Path.open = pathlib.Path.write_text = broken
elif which == "time":
    time.time = time.perf_counter = time.monotonic = broken
elif which == "os":
    os.makedirs = os.mkdir = os.replace = os.rename = os.getcwd = broken
elif which == "print":
    builtins.print = sys.stderr.write = broken
elif which == "torch":
    torch.isfinite = torch.Tensor.item = torch.zeros = torch.empty = broken
elif which == "modules":
    sys.modules.clear()
