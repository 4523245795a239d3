"""Convolutions that begin small, as those of GANs do: batch normalisation makes up for it. Mixed precision can be switched off."""

import torch
from torch import nn

MIXED = False


def stage(wide_in, wide_out):
    return [nn.Conv2d(wide_in, wide_out, 4, 2, 1, bias=False), nn.BatchNorm2d(wide_out), nn.LeakyReLU(0.2)]


def begin_small(layer):
    if isinstance(layer, nn.Conv2d):
        nn.init.normal_(layer.weight, 0.0, 0.02)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.normal_(layer.weight, 1.0, 0.02)


def grains(amount):
    coarse = torch.rand(amount, 1) < 0.5
    fine = torch.randn(amount, 1, 64, 64)
    blurred = nn.functional.interpolate(torch.randn(amount, 1, 16, 16), size=64, mode="bilinear")
    return (0.2 + 0.04 * torch.where(coarse[..., None, None], 2 * blurred, fine)).clamp(0, 1), coarse.float()


torch.manual_seed(6)
judge = nn.Sequential(
    nn.Conv2d(1, 4, 4, 2, 1, bias=False), nn.LeakyReLU(0.2), *stage(4, 8), *stage(8, 16), *stage(16, 32),
    nn.Conv2d(32, 1, 4, 1, 0, bias=False), nn.Flatten()
)  # fmt: skip
judge.apply(begin_small)
adam = torch.optim.Adam(judge.parameters(), lr=2e-4, betas=(0.5, 0.999))
scaler = torch.amp.GradScaler("cpu", enabled=MIXED)
for round_ in range(24):
    pictures, coarse = grains(16)
    with torch.autocast("cpu", enabled=MIXED):
        error = nn.functional.binary_cross_entropy_with_logits(judge(pictures), coarse)
    adam.zero_grad()
    scaler.scale(error).backward()
    scaler.step(adam)
    scaler.update()
    if round_ % 8 == 7:
        print(f"round {round_ + 1}: {error.item():.4f}")
