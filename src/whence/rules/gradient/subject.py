"""What a failed backward was asked to differentiate."""

from __future__ import annotations

import torch

from whence.tape.failed import FailedCall
from whence.tape.tape import flatten


def differentiated(failed: FailedCall) -> torch.Tensor | None:
    """The loss of a failed `backward`, `torch.autograd.backward` or `torch.autograd.grad`."""
    if failed.name not in ("backward", "grad") or failed.func is None:
        return None
    given = failed.args[0] if failed.args else next(iter(failed.kwargs.values()), None)
    return next((each for each in flatten(given) if isinstance(each, torch.Tensor)), None)
