"""The local variables of a running frame, read without the program noticing.

Before Python 3.13 the first read of `f_locals` makes a copy that the frame keeps. The copy keeps
the program's tensors alive, and `locals()` in the program returns the same dict, so reading it
again changes what the program holds.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from types import FrameType
from typing import Any

_POINTER = ctypes.sizeof(ctypes.c_void_p)
_HELD_BY_FRAME_ONLY = 3
"""`sys.getrefcount` of a frame's copy: the frame, a variable here, and the argument."""


_get_variable: Any = getattr(ctypes.pythonapi, "PyFrame_GetVar", None)
"""Public since Python 3.12."""
if _get_variable is not None:
    _get_variable.argtypes = [ctypes.py_object, ctypes.py_object]
    _get_variable.restype = ctypes.py_object


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return the current local variables of a frame."""
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED == 0 or sys.version_info >= (3, 13):
        return dict(frame.f_locals)
    if sys.version_info >= (3, 12):
        return _one_by_one(frame)
    return _from_copy(frame)


def _one_by_one(frame: FrameType) -> dict[str, Any]:
    """Read each variable from the frame, without making a copy."""
    code = frame.f_code
    found = {}
    for name in dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars)):
        try:
            found[name] = _get_variable(frame, name)
        except NameError:
            continue
    return found


def _from_copy(frame: FrameType) -> dict[str, Any]:
    """Read the frame's copy and restore it, or empty it if the program does not hold it."""
    copy = _kept_copy(frame)
    before = dict(copy) if copy is not None and _is_held(copy) else {}
    copy = frame.f_locals
    found = dict(copy)
    if sys.gettrace() is None:
        # A trace function may write to it; Python then copies all of it back into the frame.
        copy.clear()
        copy.update(before)
    return found


def _is_held(copy: dict[str, Any]) -> bool:
    # One reference more than in the caller: its variable.
    return sys.getrefcount(copy) > _HELD_BY_FRAME_ONLY + 1


def _kept_copy(frame: FrameType) -> dict[str, Any] | None:
    """Return the copy that a frame of Python 3.11 already keeps, which Python does not expose."""
    inner = _pointer_at(id(frame) + 3 * _POINTER)
    # f_func, f_globals, f_builtins, f_locals, f_code
    fields = [_pointer_at(inner + index * _POINTER) for index in range(5)] if inner else []
    if not fields or (fields[1], fields[4]) != (id(frame.f_globals), id(frame.f_code)):
        return None
    if not fields[3]:
        return None
    copy: dict[str, Any] = ctypes.cast(fields[3], ctypes.py_object).value
    return copy


def _pointer_at(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0
