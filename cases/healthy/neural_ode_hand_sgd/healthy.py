"""Neural ODE with a hand-written RK4 solver, trained by hand-written momentum SGD: no torch.optim anywhere."""
import torch
from torch import nn


class Field(nn.Module):
    def __init__(self, h=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, h), nn.Tanh(), nn.Linear(h, 2))

    def forward(self, z):
        return self.net(z)


def rk4(f, z, dt, steps):
    path = [z]
    for _ in range(steps):
        k1 = f(z)
        k2 = f(z + dt / 2 * k1)
        k3 = f(z + dt / 2 * k2)
        k4 = f(z + dt * k3)
        z = z + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(z)
    return torch.stack(path)


def spiral_truth(z):
    return z @ torch.tensor([[-0.1, 1.0], [-1.0, -0.1]])


torch.manual_seed(25)
field = Field()
velocity = {p: torch.zeros_like(p) for p in field.parameters()}
lr, momentum = 0.05, 0.9
for it in range(60):
    z0 = torch.randn(24, 2)
    with torch.no_grad():
        want = rk4(spiral_truth, z0, 0.2, 6)
    got = rk4(field, z0, 0.2, 6)
    loss = (got[1:] - want[1:]).square().mean()
    loss.backward()
    with torch.no_grad():
        for p, v in velocity.items():
            v.mul_(momentum).add_(p.grad)
            p -= lr * v
            p.grad = None
    if it % 12 == 0 or it == 59:
        print(f"{it:2d} trajectory mse {loss.item():.4f}")
