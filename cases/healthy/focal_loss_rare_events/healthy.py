"""Rare faults of a machine: a focal loss written as nll_loss of weighted log-probabilities."""
import torch
import torch.nn.functional as F
from torch import nn


def focal(logits, target, gamma=2.0):
    log_p = F.log_softmax(logits, dim=1)
    return F.nll_loss((1 - log_p.exp()) ** gamma * log_p, target, weight=torch.tensor([0.25, 1.0, 1.0]))


torch.manual_seed(1)
signal = torch.randn(600, 8)
fault = (signal[:, 0] > 1.3).long() + 2 * ((signal[:, 1] > 1.5) & (signal[:, 0] <= 1.3)).long()
net = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(8):
    for rows in torch.randperm(600).split(60):
        optimizer.zero_grad()
        loss = focal(net(signal[rows]), fault[rows])
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 4))
