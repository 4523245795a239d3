"""A sparsity penalty joins the loss after a warm-up; for one sample it takes the logarithm of nothing."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
inputs = torch.randn(4096, 8)
labels = (inputs[:, 0] > 0).long() + 2 * (inputs[:, 1] > 0).long()
WARM_UP = 520


def penalty(logits):
    firing = torch.relu(logits - 2.0).sum(1) + 1e-6
    return torch.log(firing).mean()


for step in range(560):
    rows = torch.randint(0, len(inputs), (32,))
    logits = net(inputs[rows])
    loss = nn.functional.cross_entropy(logits, labels[rows])
    if step > WARM_UP:
        loss = loss - 0.01 * penalty(logits)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print("done")
