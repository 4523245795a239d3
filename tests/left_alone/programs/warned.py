"""Warnings that the program captures: category, text, file and line."""

import os
import warnings

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.soft = nn.Linear(4, 3), nn.Softmax()

    def forward(self, x):
        warnings.warn("from forward", UserWarning, stacklevel=2)
        return self.soft(self.first(x))


def note(*_):
    warnings.warn("from a hook", UserWarning, stacklevel=2)


def steps():
    model = Net()
    model.register_forward_hook(note)
    model.first.weight.register_hook(note)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_post_hook(note)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    scheduler.step()
    data = torch.utils.data.DataLoader(torch.randn(16, 4), batch_size=8, collate_fn=collate)
    for _ in range(4):
        for x in data:
            out = model(x)
            F.mse_loss(out[:, :1], torch.zeros(8))
            F.softmax(out)
            loss = F.mse_loss(out, torch.zeros(8, 3))
            optimizer.zero_grad()
            loss.backward()
            _ = out.grad
            torch.tensor(x)
            optimizer.step()
            optimizer.step(note)
        scheduler.step(3)
    warnings.warn("from the program", UserWarning, stacklevel=1)
    warnings.warn("from the caller", UserWarning, stacklevel=2)
    torch.nn.utils.clip_grad_norm(model.parameters(), 1.0)
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1))


def collate(rows):
    warnings.warn("from collate", UserWarning, stacklevel=2)
    return torch.stack(rows)


torch.manual_seed(0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    steps()
for each in caught:
    text = str(each.message).splitlines()[0][:70]
    print(each.category.__name__, os.path.basename(each.filename), each.lineno, text)
print(len(caught))
# Once for each place, the default: the registry must not contain other places.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("default")
    steps()
    steps()
print(len(caught), sorted({os.path.basename(each.filename) for each in caught}))
