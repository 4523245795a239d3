"""Finiteness checks that run in every step."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence

import torch
from torch.optim import Optimizer

from whence.devices import reads_are_free
from whence.tape.readable import PLAIN, is_readable
from whence.tape.replay import trouble_in
from whence.torch_internals import check_finite_and_unscale_, foreach_norm, foreach_sub


def weights_of(optimizer: Optimizer) -> list[torch.Tensor]:
    """Return the weights that an optimizer is about to change and whose gradients can be read."""
    weights = (each for group in optimizer.param_groups for each in group["params"])
    return [each for each in weights if type(each) in PLAIN and type(each.grad) in PLAIN]


def gradients_of(weights: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [each.grad for each in weights if each.grad is not None and type(each.grad) in PLAIN]


@functools.cache
def _signal(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a flag of zero, which becomes one if a value is not finite, and a scale of one."""
    with torch.inference_mode(mode=False):
        return torch.zeros((), device=device), torch.ones((), device=device)


@functools.cache
def leaves_no_trace() -> bool:
    """Return whether PyTorch's check leaves no trace in autograd: no version counter changes.

    Then gradients are passed as they are. Each `.data` would be one more tensor to make and free.
    """
    with torch.inference_mode(mode=False), torch.enable_grad():
        probe = torch.zeros((), device="cpu", requires_grad=True)
        try:
            check_finite_and_unscale_([probe], *_signal(probe.device))
        except (RuntimeError, NotImplementedError):
            return False
        return probe._version == 0


def all_finite(tensors: Sequence[torch.Tensor | None]) -> bool:
    """Check many tensors in one fused call.

    PyTorch's own check for loss scaling reads each tensor once and writes it back. With a scale of
    one that changes no bit, and on `.data` it counts as no change. Tensors that it does not support
    are checked one by one.
    """
    return are_finite([each.data for each in tensors if each is not None and is_readable(each)])


def are_finite(plain: list[torch.Tensor]) -> bool:
    """Check tensors that have no history."""
    if not plain:
        return True
    found, one = _signal(plain[0].device)
    try:
        check_finite_and_unscale_(plain, found, one)
        if found.item():
            _signal.cache_clear()
            return False
        return True
    except (RuntimeError, NotImplementedError):
        # Sparse or complex tensors, several devices, or an expanded gradient that shares its
        # memory. Some may have been read already.
        _signal.cache_clear()
        device = plain[0].device
        if not reads_are_free(device) and all(each.device == device for each in plain):
            # One read for all of them, because each read waits for the device.
            flag = torch.zeros((), device=device)
            _raise_by_norms(plain, flag)
            return not flag.item()
        return not any(trouble_in(each) for each in plain)


def raise_flag(tensors: list[torch.Tensor], flag: torch.Tensor, one: torch.Tensor) -> None:
    """Make a flag nonzero if a value is not finite.

    All tensors are on one device, and nothing is read from it.
    """
    try:
        check_finite_and_unscale_(tensors, flag, one)
    except (RuntimeError, NotImplementedError):
        # Older CUDA kernels do not support bfloat16, MPS may have no kernel, and no kernel supports
        # sparse or complex tensors.
        _raise_by_norms(tensors, flag)


def _raise_by_norms(tensors: list[torch.Tensor], flag: torch.Tensor) -> None:
    plain = [each for each in map(_as_floats, tensors) if each is not None and each.numel()]
    if plain:
        norms = foreach_norm(plain, math.inf)
        # A value minus itself is zero unless it is NaN or Inf. A value that is finite in float64
        # need not be in float32.
        rests = [each.reshape(()).float() for each in foreach_sub(norms, norms)]
        flag.add_(torch.stack(rests).isfinite().all().logical_not())


def _as_floats(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the values of a tensor as strided floats; None if a norm does not support them."""
    if tensor.layout is torch.sparse_coo:
        tensor = tensor._values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.values()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if not tensor.is_floating_point() or tensor.is_meta:
        return None
    return tensor if tensor.dtype.itemsize > 1 else tensor.float()
