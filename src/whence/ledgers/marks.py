"""Fingerprints: one number for the contents of a tensor, to recognize them later."""

from __future__ import annotations

from functools import lru_cache

import torch

from whence.tape.readable import is_readable

MOST_ELEMENTS = 1_000_000
LEAST_ELEMENTS = 8
MOST_KEPT = 65_536
"""Factors for longer rows are not cached: they would hold megabytes for the whole run."""


def mark_of(tensor: torch.Tensor | None) -> float | None:
    """The fingerprint of a tensor.

    None if it cannot be read, is too large, or is so small that it may be equal by chance.
    """
    if (
        tensor is None
        or not is_readable(tensor)
        or tensor.device.type != "cpu"
        or tensor.layout is not torch.strided
        or tensor.is_complex()
    ):
        return None
    if not LEAST_ELEMENTS <= tensor.numel() <= MOST_ELEMENTS:
        return None
    return float(marks_of_rows(tensor.detach().reshape(1, -1))[0])


def marks_of_rows(rows: torch.Tensor, shift: float = 0.0) -> torch.Tensor:
    """One fingerprint per row of a table. `shift` distinguishes equal rows of several tables."""
    plain = rows.double().nan_to_num(0.123, 4.56, 7.89)
    make = _kept_factors if plain.shape[1] <= MOST_KEPT else _factors
    return plain @ make(plain.shape[1], shift, plain.device)


@lru_cache(maxsize=4)
def _kept_factors(columns: int, shift: float, device: torch.device) -> torch.Tensor:
    """Cached factors, since computing them costs several times as much as using them."""
    return _factors(columns, shift, device)


def _factors(columns: int, shift: float, device: torch.device) -> torch.Tensor:
    return torch.arange(columns, dtype=torch.float64, device=device).add_(shift).mul_(0.7).cos_()
