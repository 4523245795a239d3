"""Entropic optimal transport in the log domain; absent bins have mass 0, so their log mass is -inf."""
import torch
from torch import nn

torch.manual_seed(103)
BINS = 12
grid = torch.linspace(0, 1, BINS)
cost = (grid[:, None] - grid[None]) ** 2


def sinkhorn(log_a, b, eps=0.02, rounds=30):
    log_b = torch.log(b)                                       # -inf where b is 0
    f, g = torch.zeros_like(log_a), torch.zeros_like(b)
    for _ in range(rounds):
        f = eps * (log_a - torch.logsumexp((g[:, None, :] - cost) / eps, dim=2))
        g = eps * (log_b - torch.logsumexp((f[:, :, None] - cost) / eps, dim=1))
    plan = torch.exp((f[:, :, None] + g[:, None, :] - cost) / eps)
    return (plan * cost).sum((1, 2)), plan


def targets(n):
    centre = 0.25 + 0.5 * torch.rand(n, 1)
    hist = torch.relu(0.15 - (grid - centre).abs())
    return centre, hist / hist.sum(1, keepdim=True)


net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, BINS))
opt = torch.optim.Adam(net.parameters(), lr=2e-2)
for it in range(41):
    centre, hist = targets(16)
    distance, plan = sinkhorn(torch.log_softmax(net(centre), 1), hist)
    loss = distance.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 10 == 0:
        print(f"it {it:2d} transport cost {loss.item():.5f} mass {plan.sum((1, 2)).mean().item():.3f}")
