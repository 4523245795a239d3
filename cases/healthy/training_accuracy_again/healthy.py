"""Accuracy on the batch that was just trained on, by a second pass in training mode: a training metric, dropout and all."""

import torch
from torch import nn


def batches(count, size):
    centres = torch.randn(5, 12)
    for _ in range(count):
        kind = torch.randint(5, (size,))
        yield centres[kind] + 0.8 * torch.randn(size, 12), kind


torch.manual_seed(6)
net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Dropout(0.25), nn.Linear(48, 5))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
right = seen = 0
for step, (points, kind) in enumerate(batches(80, 32), start=1):
    loss = nn.functional.cross_entropy(net(points), kind)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        right += (net(points).argmax(1) == kind).sum().item()
    seen += len(kind)
    if step % 20 == 0:
        print(f"step {step}: training accuracy {right / seen:.3f}")
