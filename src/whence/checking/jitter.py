"""A model moved a little from where it begins, so that what is zero only at the beginning shows."""

from __future__ import annotations

import torch
from torch import nn

SHARE = 0.1
LEAST = 0.02


def jitter(model: nn.Module, number: int) -> None:
    """Add noise to every weight: a share of its own spread, and something to weights that are all alike."""
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for weight in model.parameters():
            if not weight.is_floating_point():
                continue
            noise = torch.randn(weight.shape, generator=generator).to(weight)
            spread = float(weight.float().std(unbiased=False)) if weight.numel() else 0.0
            weight.add_(noise * max(SHARE * spread, LEAST))
