"""Physics-informed net for u'' + u = 0, u(0) = 1, u'(0) = 0. No data: only residuals of second derivatives."""
import torch
from torch import nn
from torch.autograd import grad


class U(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
        self.log_omega = nn.Parameter(torch.zeros(()), requires_grad=False)     # known here, could be inferred

    def forward(self, t):
        return self.net(t)


def d(y, x):
    return grad(y, x, torch.ones_like(y), create_graph=True)[0]


def residuals(u, t):
    y = u(t)
    dy = d(y, t)
    return d(dy, t) + u.log_omega.exp() ** 2 * y


def main():
    torch.manual_seed(90)
    u = U()
    opt = torch.optim.Adam([p for p in u.parameters() if p.requires_grad], lr=1e-2)
    t0 = torch.zeros(1, 1, requires_grad=True)
    for it in range(201):
        t = (torch.rand(48, 1) * 3).requires_grad_()
        y0 = u(t0)
        start = (y0 - 1).square().sum() + d(y0, t0).square().sum()
        physics = residuals(u, t).square().mean()
        loss = physics + start
        opt.zero_grad(set_to_none=True)
        loss.backward(inputs=[p for p in u.parameters() if p.requires_grad])    # t and t0 stay clean
        opt.step()
        if it % 50 == 0:
            print(f"{it:3d} physics {physics.item():.5f} start {start.item():.5f}")
    with torch.no_grad():
        t = torch.linspace(0, 3, 31).unsqueeze(1)
        print(f"largest error against cos(t): {(u(t) - t.cos()).abs().max().item():.3f}")


main()
