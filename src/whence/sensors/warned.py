"""Warnings of torch's own name the line that called torch, also while frames of ours stand between the two."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from torch import overrides
from torch.nn.modules import module

from whence.sensors.sensor import UNCOUNTED

OURS = str(Path(__file__).parent)


class Warned:
    """On while calls are recorded. A warning about a line that it is not about without us goes once more through the filters."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._ours: Any = None

    def start(self) -> None:
        self._shown, self._ours = warnings.showwarning, self._show
        warnings.showwarning = self._ours

    def stop(self) -> None:
        if warnings.showwarning is self._ours:
            warnings.showwarning = self._shown

    def _show(
        self, message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        said, meant = _frames(filename, lineno)
        if said is None or meant is None or said is meant:
            self._shown(message, category, filename, lineno, file, line)
            return
        # Or the same warning about another line of the program would not be shown.
        said.f_globals.get("__warningregistry__", {}).pop((str(message), category, lineno), None)
        known = meant.f_globals.setdefault("__warningregistry__", {})
        name = meant.f_globals.get("__name__")
        warnings.showwarning = self._shown
        try:
            warnings.warn_explicit(message, category, meant.f_code.co_filename, meant.f_lineno, name, known)
        finally:
            warnings.showwarning = self._ours


def _frames(filename: str, lineno: int) -> tuple[FrameType | None, FrameType | None]:
    """The frame that a warning is about, and the one that is as far up without ours."""
    stack: list[FrameType] = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename != warnings.__file__ and not frame.f_code.co_filename.endswith(UNCOUNTED):
            stack.append(frame)
        frame = frame.f_back
    level = next((n for n, each in enumerate(stack) if _place(each) == (filename, lineno)), None)
    if level is None or not any(map(_is_ours, stack[: level + 1])):
        return None, None
    natural = list(_without_ours(stack))
    return stack[level], natural[level] if level < len(natural) else None


def _without_ours(stack: Iterable[FrameType]) -> Iterable[FrameType]:
    frames = iter(stack)
    for frame in frames:
        if not _is_ours(frame) and not _is_for_hooks(frame):
            if frame.f_code.co_filename != overrides.__file__:
                yield frame
            else:
                # A function written in Python has handed itself over to us: it is there a second time.
                next(frames, None)


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(OURS)


def _is_for_hooks(frame: FrameType) -> bool:
    """A module with hooks calls its forward through one more function."""
    return frame.f_code.co_name == "inner" and frame.f_code.co_filename == module.__file__


def _place(frame: FrameType) -> tuple[str, int]:
    return frame.f_code.co_filename, frame.f_lineno
