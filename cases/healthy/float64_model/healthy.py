"""PINN for u'' + pi^2 sin(pi x) = 0, u(0) = u(1) = 0, in double precision throughout (second derivatives)."""
import numpy as np
import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(170)

net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
grid = torch.from_numpy(np.linspace(0.0, 1.0, 41)).unsqueeze(1)  # numpy's float64 is welcome here
edge = torch.tensor([[0.0], [1.0]])
source = torch.pi**2 * torch.sin(torch.pi * grid)


def derivative(y, x):
    (d,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)
    return d


def residual():
    x = grid.clone().requires_grad_(True)
    u = net(x)
    return derivative(derivative(u, x), x) + source


opt = torch.optim.Adam(net.parameters(), lr=5e-3)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.99)
for step in range(201):
    pde = residual().square().mean()
    boundary = net(edge).square().mean()
    loss = pde + 50 * boundary
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 50 == 0:
        print(f"step {step:3d} pde {pde.item():.4e} boundary {boundary.item():.2e}")

with torch.no_grad():
    error = (net(grid) - torch.sin(torch.pi * grid)).abs().max()
print(f"largest error {error.item():.3f} ({error.dtype})")
