"""The program captures its stderr. There is a finding (a NaN loss)."""

import contextlib
import io
import sys

import torch
from digest import digest
from torch import nn

how = sys.argv[1]


def train():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        x = torch.randn(8, 4)
        if step >= 3:
            x[1] = -1.0
            x = torch.log(x.clamp(max=1.0))
        loss = nn.functional.mse_loss(model(x), torch.zeros(8, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    try:
        model(torch.randn(8, 5))
    except RuntimeError as error:
        print(type(error).__name__)
    digest(model)


if how == "string":
    sys.stderr = io.StringIO()
    train()
    print("captured", repr(sys.stderr.getvalue()))
elif how == "stdout":
    sys.stderr = sys.stdout
    train()
    print("done", file=sys.stderr)
elif how == "redirected":
    with contextlib.redirect_stderr(io.StringIO()) as text:
        train()
    print("captured", repr(text.getvalue()))
elif how == "closed":
    sys.stderr.close()
    train()
elif how == "none":
    sys.stderr = None
    train()
