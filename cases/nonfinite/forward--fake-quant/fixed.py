"""Quantisation-aware fine-tuning of a low-rank adapter."""
import torch
from torch import nn


class FakeQuant(torch.autograd.Function):
    """Round to int8 per output row, gradient straight through."""

    @staticmethod
    def forward(ctx, w, bits):
        top = 2 ** (bits - 1) - 1
        scale = (w.abs().amax(dim=1, keepdim=True) / top).clamp(min=1e-8)
        q = torch.round(w / scale)
        return q * scale

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class AdaptedLinear(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        down = FakeQuant.apply(self.down, 8)
        up = FakeQuant.apply(self.up, 8)
        return self.base(x) + x @ down.T @ up.T


def finetune(model, xs, ys, steps):
    trainable = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.Adam(trainable, lr=1e-2)
    for step in range(steps):
        loss = (model(xs) - ys).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        yield step, loss.item()


if __name__ == "__main__":
    torch.manual_seed(31)
    xs = torch.randn(64, 8)
    base = nn.Linear(8, 3)
    ys = xs @ torch.randn(8, 3)
    model = nn.Sequential(AdaptedLinear(base, rank=2))
    for step, value in finetune(model, xs, ys, 20):
        if step % 5 == 0:
            print(f"{step:2d}: {value:.4f}")
