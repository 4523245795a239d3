"""Tides by a small net: gradients are dropped weight by weight, clipped and given a little noise before the step."""
import torch
from torch import nn

torch.manual_seed(8)
hours = torch.linspace(0, 8, 400).unsqueeze(1)
level = torch.sin(2 * hours) + 0.4 * torch.sin(3.3 * hours)
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
weights = [*net.parameters()]
optimizer = torch.optim.Adam(weights, lr=5e-3)


def update(rows, noise):
    loss = nn.functional.mse_loss(net(hours[rows]), level[rows])
    for weight in weights:
        weight.grad = None
    loss.backward()
    nn.utils.clip_grad_value_(weights, 0.02)
    for weight in weights:
        weight.grad.add_(torch.randn_like(weight.grad), alpha=noise)
    optimizer.step()
    return loss.item()


for epoch in range(12):
    losses = [update(rows, 1e-4 / (1 + epoch)) for rows in torch.randperm(400).split(40)]
    print(epoch, round(sum(losses) / len(losses), 4))
