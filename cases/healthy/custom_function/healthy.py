"""Learned soft-thresholding (a tiny LISTA) with hand-written, gradcheck-ed autograd Functions."""
import torch
from torch import nn
from torch.autograd import Function, gradcheck
from torch.autograd.function import once_differentiable


class Shrink(Function):
    """sign(x) * max(|x| - theta, 0), one theta per column."""

    @staticmethod
    def forward(ctx, x, theta):
        active = x.abs() > theta
        ctx.save_for_backward(active, x.sign())
        return torch.where(active, x - x.sign() * theta, torch.zeros_like(x))

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        active, sign = ctx.saved_tensors
        gx = g * active if ctx.needs_input_grad[0] else None
        gt = -(g * sign * active).sum(0) if ctx.needs_input_grad[1] else None
        return gx, gt


class LogCosh(Function):
    """Mean of log(cosh(r)), written so that large residuals do not overflow; `scale` is not differentiated."""

    @staticmethod
    def forward(ctx, r, scale):
        ctx.scale = scale
        ctx.save_for_backward(r)
        a = (r * scale).abs()
        return (a + torch.log1p(torch.exp(-2 * a)) - 0.6931471805599453).mean()

    @staticmethod
    def backward(ctx, g):
        (r,) = ctx.saved_tensors
        return g * ctx.scale * torch.tanh(r * ctx.scale) / r.numel(), None


class Lista(nn.Module):
    def __init__(self, n_obs, n_code, rounds=3):
        super().__init__()
        self.We = nn.Linear(n_obs, n_code, bias=False)
        self.S = nn.Linear(n_code, n_code, bias=False)
        self.theta = nn.Parameter(torch.full((n_code,), 0.1))
        self.rounds = rounds

    def forward(self, y):
        b = self.We(y)
        z = Shrink.apply(b, self.theta)
        for _ in range(self.rounds):
            z = Shrink.apply(b + self.S(z), self.theta)
        return z


torch.manual_seed(110)
x64 = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
t64 = torch.full((4,), 0.3, dtype=torch.float64, requires_grad=True)
print("gradcheck:", gradcheck(Shrink.apply, (x64, t64)), gradcheck(lambda r: LogCosh.apply(r, 2.0), (x64,)))

dictionary = nn.functional.normalize(torch.randn(20, 10), dim=1)
model = Lista(10, 20)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(121):
    code = torch.randn(64, 20) * (torch.rand(64, 20) < 0.15)
    loss = LogCosh.apply(model(code @ dictionary) - code, 3.0)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print(f"step {step:3d} loss {loss.item():.4f}")
