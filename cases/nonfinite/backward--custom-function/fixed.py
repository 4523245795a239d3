"""Sparse coding with a soft-shrunk unit-ball constraint; gradient written by hand to save memory."""
import torch
from torch import nn


class GroupShrink(torch.autograd.Function):
    """Block soft threshold: y = v * max(0, 1 - t / |v|), row by row."""

    @staticmethod
    def forward(ctx, v, t):
        size = v.norm(dim=-1, keepdim=True)
        keep = size > t
        y = torch.where(keep, v * (1 - t / size.clamp_min(1e-12)), 0.0)
        ctx.save_for_backward(v, size, keep)
        ctx.t = t
        return y

    @staticmethod
    def backward(ctx, grad_y):
        v, size, keep = ctx.saved_tensors
        size = size.clamp_min(1e-12)
        unit = v / size
        along = (grad_y * unit).sum(-1, keepdim=True) * unit
        grad_v = (1 - ctx.t / size) * grad_y + ctx.t / size * along
        return grad_v * keep, None


class SparseCoder(nn.Module):
    def __init__(self, n_in=20, groups=6, width=4, t=0.1):
        super().__init__()
        self.shape, self.t = (groups, width), t
        self.encode = nn.Linear(n_in, groups * width, bias=False)
        self.decode = nn.Linear(groups * width, n_in)

    def forward(self, x):
        code = GroupShrink.apply(self.encode(x).view(len(x), *self.shape), self.t)
        return self.decode(code.flatten(1)), code


def patches(n):
    """Patches from a natural image: mostly edges, some of clear sky (nothing left once the mean is gone)."""
    position = torch.rand(n, 1) * 20
    edge = torch.tanh(torch.arange(20.0) - position)
    edge[torch.rand(n) < 0.02] = 1.0
    return edge - edge.mean(1, keepdim=True)


torch.manual_seed(27)
coder = SparseCoder()
opt = torch.optim.SGD(coder.parameters(), lr=0.1, momentum=0.9)
for step in range(60):
    x = patches(16)
    recon, code = coder(x)
    loss = nn.functional.mse_loss(recon, x)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 12 == 0:
        used = (code.abs().sum(-1) > 0).float().mean().item()
        print(f"step {step:2d} mse {loss.item():.4f} groups in use {used:.2f}")
