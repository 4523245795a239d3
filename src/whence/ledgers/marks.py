"""One number for the contents of a tensor, by which they are known again."""

from __future__ import annotations

import torch

MOST_ELEMENTS = 1_000_000
LEAST_ELEMENTS = 8


def mark_of(tensor: torch.Tensor | None) -> float | None:
    """None for what is not at hand, too large, or so small that it may be equal by chance."""
    if tensor is None or tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.is_complex():
        return None
    if not LEAST_ELEMENTS <= tensor.numel() <= MOST_ELEMENTS:
        return None
    return float(marks_of_rows(tensor.detach().reshape(1, -1))[0])


def marks_of_rows(rows: torch.Tensor, shift: float = 0.0) -> torch.Tensor:
    """One for each row of a table. `shift` tells equal rows of several tables apart."""
    plain = rows.double().nan_to_num(0.123, 4.56, 7.89)
    return plain @ torch.arange(plain.shape[1], dtype=torch.float64).add_(shift).mul_(0.7).cos_()
