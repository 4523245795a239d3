"""Operands that are not finite, and that torch or a library refuses to work on: is it because of that?"""

from __future__ import annotations

from collections.abc import Iterable
from types import FrameType, FunctionType
from typing import Any

import torch
from torch import nn

from whence.lineage.births import mended
from whence.lineage.postmortem import examine
from whence.source.sites import is_library, variable, variables
from whence.tape.replay import leaving_no_trace, trouble_in
from whence.tape.tape import flatten
from whence.tape.trial import try_values


def tensors_in_library(frames: list[FrameType]) -> Iterable[torch.Tensor]:
    """Tensors that the library code which raised was working on."""
    for frame in frames:
        if not is_library(frame.f_code.co_filename):
            return
        things = list(variables(frame).values())
        me = variable(frame, "self")
        things += [
            each for each in getattr(me, "__dict__", {}).values() if not isinstance(me, nn.Module)
        ]
        yield from (each for each in things if isinstance(each, torch.Tensor))


def tensors_refused(exception: BaseException) -> Iterable[torch.Tensor]:
    """Tensors that the call was given which raised, where no sensor saw it made."""
    remains = examine(exception.__traceback__)
    innermost = remains.frames[0].f_code.co_filename if remains.frames else None
    if innermost is None or is_library(innermost) or isinstance(remains.func, FunctionType):
        # A function of the program's is not called once more.
        return []
    return refused_operands(remains.func, *remains.known()) if remains.func is not None else []


def refused_operands(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Operands that are not finite, if the call goes well with them mended."""
    with leaving_no_trace():
        bad = [
            each
            for each in flatten((args, kwargs))
            if isinstance(each, torch.Tensor) and trouble_in(each)
        ]
        cures = (_mended, _as_identity)
        return (
            bad if bad and any(try_values(func, args, kwargs, cure).ran for cure in cures) else []
        )


def _mended(tensor: torch.Tensor) -> torch.Tensor:
    return mended(tensor) if tensor.is_floating_point() else tensor


def _as_identity(tensor: torch.Tensor) -> torch.Tensor:
    """What a factorisation accepts."""
    if trouble_in(tensor) and tensor.dim() > 1 and tensor.shape[-1] == tensor.shape[-2]:
        return torch.eye(tensor.shape[-1], dtype=tensor.dtype).expand(tensor.shape)
    return _mended(tensor)
