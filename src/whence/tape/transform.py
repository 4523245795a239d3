"""A call of a function transformed by `torch.func`, kept while it lasts, to be repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(eq=False, slots=True)
class Transform:
    """An outermost call, with the arguments of PyTorch's own implementation."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state: torch.Tensor
    """The random state before it."""
    gradients: bool = False
    """Whether gradients were computed in it."""
