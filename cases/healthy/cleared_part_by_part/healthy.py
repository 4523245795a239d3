"""Gradients that are cleared in parts, each in its place: part by part, after each step, and some only every fourth time."""
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.heads = nn.ModuleList([nn.Linear(16, 2) for _ in range(2)])

    def loss(self, task=0):
        x = torch.randn(32, 8)
        return F.cross_entropy(self.heads[task](torch.relu(self.body(x))), (x[:, task] > 0).long())


torch.manual_seed(15)

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(24):
    net.body.zero_grad()
    net.heads.zero_grad()
    loss = net.loss(i % 2)
    loss.backward()
    opt.step()
print(f"part by part {loss.item():.3f}")

net = Net()
body, heads = torch.optim.SGD(net.body.parameters(), lr=0.1), torch.optim.Adam(net.heads.parameters(), lr=1e-2)
for i in range(24):
    loss = net.loss()
    loss.backward()
    body.step()
    body.zero_grad()
    heads.step()
    heads.zero_grad()
print(f"after each step {loss.item():.3f}")

net = Net()
body, heads = torch.optim.SGD(net.body.parameters(), lr=0.03), torch.optim.Adam(net.heads.parameters(), lr=1e-2)
for i in range(24):
    heads.zero_grad()
    loss = net.loss()
    loss.backward()
    heads.step()
    if i % 4 == 3:
        # the body is updated with the sum of four
        body.step()
        body.zero_grad()
print(f"every fourth time {loss.item():.3f}")
