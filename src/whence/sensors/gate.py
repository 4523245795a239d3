"""Whether something else traces, counts or captures at this moment; sensors are off then.

Our operations would become part of the traced graph, the profile or the operation count. A tensor
that is read would have no values.
"""

from __future__ import annotations

import torch

from whence.devices import is_capturing
from whence.torch_internals import (
    DeviceContext,
    dispatch_depth,
    function_depth,
    function_modes,
    is_profiling,
    tracing_state,
)

CAN_CAPTURE = bool(torch.backends.cuda.is_built())  # type: ignore[no-untyped-call]

own_modes: set[int] = set()
"""Identities of the function modes that are sensors."""


def is_closed() -> bool:
    """Return whether a tracer, a profiler, a graph capture or a program's mode is active."""
    if dispatch_depth() or is_profiling() or tracing_state() is not None:
        return True
    return (function_depth() > 0 and _has_foreign_mode()) or (CAN_CAPTURE and is_capturing())


def _has_foreign_mode() -> bool:
    """Return whether a mode of the program is active.

    `torch.device` as a context and `torch.set_default_device` are harmless modes.
    """
    modes = function_modes() or ()
    return any(not isinstance(each, DeviceContext) and id(each) not in own_modes for each in modes)
