"""Takes PyTorch's frames out of a traceback that are in it only because a sensor is on.

With a function mode, PyTorch's `cross_entropy` asks `handle_torch_function`, which asks the mode,
which calls `cross_entropy` again. With a hook, a module's forward is called from another line. These
frames are outside of ours: they come into the traceback after a sensor has passed the exception on.
So the frame that has made the call is traced for this one exception, and when the exception arrives
there its traceback becomes the plain run's. Where the program is traced already (a debugger,
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
    """For a call that `handle_torch_function` has handed to a mode, made in this frame."""
    _when_it_arrives(exception, frame, _without_hand_over)


def hide_hook(exception: BaseException, frame: FrameType | None) -> None:
    """For a module that has no hook but a sensor's, called in this frame."""
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
        """PyTorch restores its modes on the way. Anything else means that the exception was caught."""
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
        # It hands over another function than itself: `F.max_pool2d` hands over `torch.max_pool2d`.
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
    """The instruction and the line by which a module without hooks calls its forward."""
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
"""None where this torch calls it in another way: then the line stays the one with hooks."""
