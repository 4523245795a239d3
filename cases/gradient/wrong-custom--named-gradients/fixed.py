"""Loudness from a bank of filters: a gain with a soft limit, its backward written out by hand."""
import torch
from torch import nn


class SoftLimit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ceiling, signal, gain):
        level = torch.tanh(gain * signal / ceiling)
        ctx.save_for_backward(signal, gain, level)
        ctx.ceiling = ceiling
        return ceiling * level

    @staticmethod
    def backward(ctx, upstream):
        signal, gain, level = ctx.saved_tensors
        slope = 1 - level**2
        to_signal = upstream * slope * gain
        to_gain = (upstream * slope * signal).sum(0)
        return None, to_signal, to_gain


class Loudness(nn.Module):
    def __init__(self, bands=12):
        super().__init__()
        self.bank = nn.Linear(20, bands)
        self.gain = nn.Parameter(torch.ones(bands))
        self.sum = nn.Linear(bands, 1)

    def forward(self, x):
        return self.sum(SoftLimit.apply(1.5, self.bank(x), self.gain))


torch.manual_seed(1)
clips = torch.randn(256, 20)
loud = clips.abs().mean(1, keepdim=True)
model = Loudness()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    for rows in torch.randperm(256).split(32):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(clips[rows]), loud[rows])
        loss.backward()
        opt.step()
print(f"{loss.item():.4f}")
