"""Counts what a program can enumerate: threads, signal handlers, children."""

import os
import signal
import threading

import torch
from digest import digest
from torch import nn


def show(when):
    print(when, "threads", threading.active_count(), [each.name for each in threading.enumerate()])
    print(
        when,
        "handlers",
        [(each.name, _name(each)) for each in signal.valid_signals() if _named(each)],
    )
    print(when, "wakeup", signal.set_wakeup_fd(-1))
    print(when, "alarm", signal.getitimer(signal.ITIMER_REAL))
    try:
        print(when, "children", os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        print(when, "no children")


def _named(number):
    return hasattr(number, "name")


def _name(number):
    handler = signal.getsignal(number)
    return getattr(handler, "name", getattr(handler, "__name__", repr(handler)))


show("start")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(64, 4))
for epoch in range(2):
    for step, (x,) in enumerate(torch.utils.data.DataLoader(data, batch_size=8)):
        if (epoch, step) == (1, 3):
            digest(model, optimizer)
            x = torch.log(x)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    show(f"epoch {epoch}")
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join(3)
        print("joined", thread.name, thread.is_alive())
show("end")
digest(model, optimizer)
