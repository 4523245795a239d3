# Chebyshev-like curve fit: minimise the largest residual, smoothed as a 20-norm.
import math

import torch

torch.manual_seed(3)
x = torch.linspace(-1, 1, 41)
target = torch.exp(-x) * torch.cos(2 * x)
ORDER = 6
basis = torch.stack([torch.cos(k * torch.acos(x)) for k in range(ORDER + 1)], dim=1)

coef = torch.nn.Parameter(torch.zeros(ORDER + 1))
opt = torch.optim.Adam([coef], lr=0.03)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.985)

history = []
for step in range(400):
    residual = basis @ coef - target
    peak = residual.detach().abs().max()
    loss = peak * (residual / peak).norm(p=20)
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    history.append(residual.detach().abs().max().item())
    if step % 80 == 0:
        print(f"{step:4d} 20-norm {loss.item():.5f} largest {history[-1]:.5f}")

best = min(h for h in history if not math.isnan(h))
print(f"largest residual {history[-1]:.5f}, best {best:.5f}")
