"""Operands that are not finite, and that torch or a library refuses to work on: is it because of that?"""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch
from torch import nn

from whence.lineage.births import mended
from whence.source.sites import is_library
from whence.tape.replay import leaving_no_trace, trouble_in
from whence.tape.tape import flatten
from whence.tape.trial import try_values


def tensors_in_library(frames: list[FrameType]) -> Iterable[torch.Tensor]:
    """Tensors that the library code which raised was working on."""
    for frame in frames:
        if not is_library(frame.f_code.co_filename):
            return
        things = list(frame.f_locals.values())
        me = frame.f_locals.get("self")
        things += [each for each in getattr(me, "__dict__", {}).values() if not isinstance(me, nn.Module)]
        yield from (each for each in things if isinstance(each, torch.Tensor))


def refused_operands(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Operands that are not finite, if the call goes well with them mended."""
    with leaving_no_trace():
        bad = [each for each in flatten((args, kwargs)) if isinstance(each, torch.Tensor) and trouble_in(each)]
        cures = (_mended, _as_identity)
        return bad if bad and any(try_values(func, args, kwargs, cure).ran for cure in cures) else []


def _mended(tensor: torch.Tensor) -> torch.Tensor:
    return mended(tensor) if tensor.is_floating_point() else tensor


def _as_identity(tensor: torch.Tensor) -> torch.Tensor:
    """What a factorisation accepts."""
    if trouble_in(tensor) and tensor.dim() > 1 and tensor.shape[-1] == tensor.shape[-2]:
        return torch.eye(tensor.shape[-1], dtype=tensor.dtype).expand(tensor.shape)
    return _mended(tensor)
