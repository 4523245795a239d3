"""Looks that are made in every step: is everything finite?"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import torch
from torch.optim import Optimizer

from whence.tape.replay import trouble_in


def weights_of(optimizer: Optimizer) -> list[torch.Tensor]:
    """The weights that an optimizer is about to change."""
    return [each for group in optimizer.param_groups for each in group["params"] if each.grad is not None]


def gradients_of(weights: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [each.grad for each in weights if each.grad is not None]


@functools.cache
def _signal(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """A zero that becomes one if something is not finite, and a scale of one."""
    with torch.inference_mode(mode=False):
        return torch.zeros((), device=device), torch.ones((), device=device)


def all_finite(tensors: Sequence[torch.Tensor | None]) -> bool:
    """One fused look at many tensors.

    torch's own check for loss scaling reads each tensor once and writes back what it read: with a scale of one that
    changes no bit, and on `.data` it counts as no change. Where it cannot look, each tensor is looked at by itself.
    """
    return are_finite([each.data for each in tensors if each is not None])


def are_finite(plain: list[torch.Tensor]) -> bool:
    """The same for tensors that are without a history."""
    if not plain:
        return True
    found, one = _signal(plain[0].device)
    try:
        torch._amp_foreach_non_finite_check_and_unscale_(plain, found, one)
        if found.item():
            _signal.cache_clear()
            return False
        return True
    except (RuntimeError, NotImplementedError):
        # Sparse or complex ones, several devices, an expanded gradient that shares its memory. Some may have been read already.
        _signal.cache_clear()
        return not any(trouble_in(each) for each in plain)
