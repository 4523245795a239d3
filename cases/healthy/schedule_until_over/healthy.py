"""Trains for as long as its schedule lasts: the schedule says when it is over."""
import torch
from torch import nn

torch.manual_seed(3)
net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
cycle = torch.optim.lr_scheduler.OneCycleLR(sgd, max_lr=0.05, total_steps=90)

steps = 0
over = False
while not over:
    x = torch.randn(64, 5)
    loss = nn.functional.mse_loss(net(x), torch.sin(x[:, :1]) + 0.3 * x[:, 1:2])
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    steps += 1
    try:
        cycle.step()
    except ValueError:
        over = True
print("steps", steps, "loss", round(loss.item(), 4))
