"""Safe square roots: double where, and a custom Function that guards its backward."""
import torch
from torch import nn


def safe_norm(x):
    sq = x.pow(2).sum(-1)
    zero = sq == 0
    return torch.where(zero, torch.zeros_like(sq), torch.where(zero, torch.ones_like(sq), sq).sqrt())


class SafeLog(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x.log(), torch.full_like(x, -30.0))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, g / x, torch.zeros_like(g))


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, a, b):
        return safe_norm(self.f(a) - self.f(b))


torch.manual_seed(0)
model = Siamese()
opt = torch.optim.Adam(model.parameters(), 1e-3)
for step in range(80):
    a = torch.randn(16, 5)
    b = torch.randn(16, 5)
    b[:4] = a[:4]
    same = torch.zeros(16)
    same[:8] = 1
    d = model(a, b)
    closeness = torch.relu(1 - d)
    loss = (same * d + (1 - same) * torch.relu(1 - d)).mean() - 1e-3 * SafeLog.apply(closeness).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
