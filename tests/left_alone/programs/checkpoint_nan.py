"""Non-reentrant checkpointing of layers whose input is NaN in one step."""

import sys

import torch
from digest import digest
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))
        self.calls = 0

    def forward(self, h):
        self.calls += 1
        return h + self.layers(h)


def run(model, forward, poisoned):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(poisoned + 2):
        h = torch.randn(16, 8)
        if step == poisoned:
            digest(model, optimizer)
            h = torch.log(h)
        with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in sys.argv):
            loss = forward(h).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
    digest(model, optimizer)


torch.manual_seed(0)
head, block = nn.Linear(8, 1), Block()
layer = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
model = nn.ModuleList([layer, block, head])
if "deep" in sys.argv:
    run(
        model,
        lambda h: head(
            checkpoint(block, checkpoint(layer, h, use_reentrant=False), use_reentrant=False)
        ),
        poisoned=6,
    )
else:
    run(model, lambda h: head(checkpoint(layer, h, use_reentrant=False)), poisoned=4)
print("forward calls", block.calls)
