"""The tensor that a failed backward should differentiate."""

from __future__ import annotations

import torch

from whence.tape.failed import FailedCall
from whence.tape.tape import flatten


def differentiated(failed: FailedCall) -> torch.Tensor | None:
    """The loss of a failed `backward`, `torch.autograd.backward` or `torch.autograd.grad`."""
    if failed.name not in ("backward", "grad") or failed.func is None:
        return None
    subject = failed.args[0] if failed.args else next(iter(failed.kwargs.values()), None)
    return next((each for each in flatten(subject) if isinstance(each, torch.Tensor)), None)
