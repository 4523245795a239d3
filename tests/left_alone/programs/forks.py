"""A program that counts SIGCHLD and forks, with data and losses that Whence would investigate."""

import os
import signal
import sys

import torch
from digest import digest
from torch import nn

counts = dict.fromkeys(("SIGCHLD", "before", "after in parent", "after in child"), 0)


def count(what):
    counts[what] += 1


if "sigchld" in sys.argv:
    signal.signal(signal.SIGCHLD, lambda *_: count("SIGCHLD"))
if "at_fork" in sys.argv:
    os.register_at_fork(
        before=lambda: count("before"),
        after_in_parent=lambda: count("after in parent"),
        after_in_child=lambda: count("after in child"),
    )


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.x = torch.randn(64, 4)
        self.is_bad = False

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        x = self.x[index]
        return torch.log(x if self.is_bad and index == 17 else x.abs() + 0.1), x.sum()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rows = Rows()
for epoch in range(3):
    if epoch == 2:
        digest(model, optimizer)
        rows.is_bad = True
    for x, y in torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True):
        loss = nn.functional.mse_loss(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
try:
    model(torch.randn(8, 5))
except RuntimeError as error:
    print(error)
print(counts)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no children")
digest(model, optimizer)
