"""A function that `torch.func` has transformed, called: kept as long as the call lasts, to be called again in another way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(eq=False, slots=True)
class Transform:
    """An outermost call: what torch's own implementation of that name was given."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state: torch.Tensor
    """The random state before it."""
    gradients: bool = False
    """Whether gradients were computed in it."""
