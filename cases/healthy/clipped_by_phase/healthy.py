"""Every part is clipped by itself, those that are frozen for now included: their iterators are empty because nothing is in them."""

import torch
from torch import nn


class Tutor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 20), nn.ReLU())
        self.head = nn.Linear(20, 2)

    def forward(self, x):
        return self.head(self.body(x))


def learnable(part):
    return filter(lambda p: p.requires_grad, part.parameters())


torch.manual_seed(5)
model = Tutor()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(60):
    if step == 30:
        model.head.requires_grad_(False)
        optimizer = torch.optim.SGD(learnable(model), lr=0.02)
    x = torch.randn(40, 6)
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] * x[:, 1] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(learnable(model.body), 1.0)
    weights = learnable(model.head)
    nn.utils.clip_grad_norm_(weights, 0.5)
    optimizer.step()
print(f"{loss.item():.3f}")
