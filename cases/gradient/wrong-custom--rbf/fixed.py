from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    dim: int = 4
    kernels: int = 16
    gamma: float = 0.5
    lr: float = 0.01
    steps: int = 60
    batch: int = 64


class GaussianKernel(torch.autograd.Function):
    """out[b, k] = exp(-gamma * |x_b - c_k|^2), without keeping autograd's big intermediates"""

    @staticmethod
    def forward(ctx, x, centers, gamma):
        diff = x.unsqueeze(1) - centers.unsqueeze(0)
        out = torch.exp(-gamma * diff.square().sum(-1))
        ctx.save_for_backward(x, centers, out)
        ctx.gamma = gamma
        return out

    @staticmethod
    def backward(ctx, grad_out):
        x, centers, out = ctx.saved_tensors
        diff = x.unsqueeze(1) - centers.unsqueeze(0)
        g = -2 * ctx.gamma * (grad_out * out).unsqueeze(-1) * diff
        return g.sum(1), -g.sum(0), None


class RBFNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.gamma = cfg.gamma
        self.proj = nn.Linear(6, cfg.dim)
        self.centers = nn.Parameter(torch.randn(cfg.kernels, cfg.dim) * 0.7)
        self.out = nn.Linear(cfg.kernels, 2)

    def forward(self, x):
        phi = GaussianKernel.apply(self.proj(x), self.centers, self.gamma)
        return self.out(phi)


def ring_data(n):
    x = torch.randn(n, 6)
    label = (x[:, :3].square().sum(1) > 2.4).long()
    return x, label


cfg = Config()
torch.manual_seed(21)
X, Y = ring_data(1024)
model = RBFNet(cfg)
optim = torch.optim.Adam(model.parameters(), lr=cfg.lr)
loss_fn = nn.CrossEntropyLoss()

start = model.centers.detach().clone()
for step in range(cfg.steps):
    idx = torch.randint(0, len(X), (cfg.batch,))
    loss = loss_fn(model(X[idx]), Y[idx])
    optim.zero_grad(set_to_none=True)
    loss.backward()
    optim.step()
    if (step + 1) % 15 == 0:
        moved = (model.centers.detach() - start).norm().item()
        print(step + 1, "loss %.4f" % loss.item(), "centers moved %.3f" % moved)
