"""A generator of waiting times, trained with the kernel distance: every generated number meets every real one, on purpose."""
import torch
from torch import nn

torch.manual_seed(12)
N = 48


def kernel(gap):
    return (-gap.pow(2)).exp().mean()


net = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 2))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(60):
    real = torch.randn(N, 2).exp() / 3
    made = net(torch.randn(N, 3))
    loss = 0.0
    for k in range(2):
        within = kernel(made[:, k, None] - made[:, k])
        across = kernel(made[:, k, None] - real[:, k])          # (N, 1) against (N,): all pairs
        loss = loss + within - 2 * across
    loss = loss + (made[:, :1] - made[:, :1].mean() - real[:, :1]).mean().pow(2)     # slices that stay columns
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, f"{loss.item():.4f}")
