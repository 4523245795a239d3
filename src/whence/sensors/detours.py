"""Remove the PyTorch frames from a traceback that are there only because a sensor is on.

With a function mode, PyTorch's `cross_entropy` calls `handle_torch_function`, which calls the mode,
which calls `cross_entropy` again. With a hook, a module's forward is called from another line. Such
a frame is outside Whence's frames, so it enters the traceback after a sensor has passed the
exception on. So the calling frame is traced for this one exception. When the exception arrives
there, its traceback is made equal to a plain run's. If the program is already traced (a debugger,
coverage), nothing is changed.
"""

from __future__ import annotations

import contextlib
import dis
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch
from torch.nn.modules import module as torch_module
from torch.overrides import handle_torch_function

from whence.source.sites import is_own
from whence.torch_internals import MODULE_CALL

HANDED_OVER = handle_torch_function.__code__
MODULE_FILE = torch_module.__file__
TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


def hide_hand_over(exception: BaseException, frame: FrameType | None) -> None:
    """Clean the traceback of a call in this frame that `handle_torch_function` passed on."""
    _when_it_arrives(exception, frame, _without_hand_over)


def hide_hook(exception: BaseException, frame: FrameType | None) -> None:
    """Clean the traceback of a module called in this frame whose only hooks are a sensor's."""
    if DIRECT_CALL is not None:
        _when_it_arrives(exception, frame, _without_hook)


def _when_it_arrives(
    exception: BaseException, frame: FrameType | None, shorten: Callable[[TracebackType], None]
) -> None:
    if frame is None or sys.gettrace() is not None or frame.f_trace is not None:
        return
    target = frame
    awaited: BaseException | None = exception

    def stop() -> None:
        nonlocal awaited
        awaited = None
        sys.settrace(None)
        target.f_trace = None

    def at_target(_frame: FrameType, event: str, arg: Any) -> None:
        is_due = event == "exception" and arg[1] is awaited
        stop()
        if is_due:
            shorten(arg[2])

    def at_call(called: FrameType, _event: str, _arg: Any) -> None:
        """Stop at foreign code: it means that the exception was caught.

        PyTorch itself only restores its modes on the way.
        """
        name = called.f_code.co_filename
        if not (name.startswith(TORCH_FOLDER) or name == contextlib.__file__ or is_own(name)):
            stop()

    target.f_trace = at_target
    sys.settrace(at_call)


def _without_hand_over(traceback: TracebackType) -> None:
    first = traceback.tb_next
    over = first.tb_next if first is not None else None
    if first is None or over is None or over.tb_frame.f_code is not HANDED_OVER:
        return
    called = over.tb_next
    if called is not None and called.tb_frame.f_code is first.tb_frame.f_code:
        traceback.tb_next = called
    else:
        # The function passed to the mode may differ: `F.max_pool2d` passes `torch.max_pool2d`.
        first.tb_next = called


def _without_hook(traceback: TracebackType) -> None:
    call = traceback.tb_next
    if call is None or DIRECT_CALL is None or call.tb_frame.f_code is not MODULE_CALL:
        return
    within = call.tb_next
    if within is not None and within.tb_frame.f_code in MODULE_CALL.co_consts:
        within = within.tb_next
    traceback.tb_next = TracebackType(within, call.tb_frame, *DIRECT_CALL)


def _direct_call(code: CodeType) -> tuple[int, int] | None:
    """Return the instruction and the line by which a module without hooks calls its forward."""
    line: int | None = None
    names: set[Any] = set()
    for each in dis.get_instructions(code):
        if each.starts_line:
            line, names = each.positions.lineno if each.positions is not None else None, set()
        names.add(each.argval if isinstance(each.argval, str) else None)
        if each.opname.startswith("CALL_FUNCTION_EX"):
            return (each.offset, line) if "forward_call" in names and line is not None else None
    return None


DIRECT_CALL = _direct_call(MODULE_CALL)
"""None if this PyTorch calls it differently: then the traceback shows the line used with hooks."""
