"""Whether something else traces, counts or captures at this moment. Sensors are off then.

An operation of ours would become part of a traced graph, of a profile or of a count of operations;
a look at a tensor would find one without values.
"""

from __future__ import annotations

import torch
from torch.utils._device import DeviceContext

from whence.devices import is_capturing

_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_tracing_state = torch._C._get_tracing_state
_is_profiling = torch._C._autograd._profiler_enabled

CAN_CAPTURE = bool(torch.backends.cuda.is_built())  # type: ignore[no-untyped-call]

own_modes: set[int] = set()
"""Identities of function modes that are sensors."""


def is_closed() -> bool:
    """Tell whether a tracer, a profiler, a graph capture or a mode of the program's own is at work."""
    if _dispatch_modes() or _is_profiling() or _tracing_state() is not None:
        return True
    return (_function_modes() > 0 and _has_foreign_mode()) or (CAN_CAPTURE and is_capturing())


def _has_foreign_mode() -> bool:
    """`torch.device` as a context, and `torch.set_default_device`, are modes that do no harm."""
    modes = (torch._C._get_function_stack_at(level) for level in range(_function_modes()))
    return any(not isinstance(each, DeviceContext) and id(each) not in own_modes for each in modes)
