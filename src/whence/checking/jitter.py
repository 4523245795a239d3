"""Perturb a model slightly, so that weights that are zero only at initialisation show."""

from __future__ import annotations

import torch
from torch import nn

SHARE = 0.1
LEAST = 0.02


def jitter(model: nn.Module, number: int) -> None:
    """Add noise to every weight: a share of its spread, with a minimum for constant weights."""
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for weight in model.parameters():
            if not weight.is_floating_point():
                continue
            noise = torch.randn(weight.shape, generator=generator).to(weight)
            spread = float(weight.float().std(unbiased=False)) if weight.numel() else 0.0
            weight.add_(noise * max(SHARE * spread, LEAST))
