"""Functions that pass a call on as if the program had made it itself.

A PyTorch warning names the Python frame that called into it, and is recorded in that frame's module
so that it is shown once. So a sensor passes each call on from a function with the caller's file,
line and globals.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

from torch.nn.modules import module as torch_module

from whence.sensors.sensor import passes_through
from whence.source.sites import PASSAGE
from whence.tape.native import is_child

MOST_PASSAGES = 4096
DEEPEST = 8
MODULE_FILE = torch_module.__file__

Passage = Callable[[Callable[..., Any], Any, Any], Any]


# fmt: off
def _call(func: Callable[..., Any], args: Any, kwargs: Any) -> Any: return func(*args, **kwargs)
# fmt: on


_TEMPLATE = _call.__code__.replace(co_name=PASSAGE, co_qualname=PASSAGE)


def _caller_of(frame: FrameType | None) -> FrameType | None:
    """Return the next outer frame that also exists in a plain run.

    A module with a hook calls its forward through one more frame.
    """
    frame = frame.f_back if frame is not None else None
    while (
        frame is not None
        and frame.f_code.co_name == "inner"
        and frame.f_code.co_filename == MODULE_FILE
    ):
        frame = frame.f_back
    return frame


def _nested(passages: list[Passage]) -> Passage:
    """Return a passage that calls through all of them, the last one first."""

    @passes_through
    def pass_on(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        given: tuple[Any, ...] = (func, args, kwargs)
        for inner in passages[:-1]:
            given = inner, given, {}
        return passages[-1](*given)

    return pass_on


class Passages:
    """One function for each place in the program that calls PyTorch."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], tuple[Passage, FrameType | Any]] = {}

    def below(self, frame: FrameType, levels: int) -> Passage:
        """Return a passage for a function that warns about a frame `levels` further out."""
        passages = [self.at(frame)]
        outer: FrameType | None = frame
        for _ in range(min(levels, DEEPEST)):
            outer = _caller_of(outer)
            if outer is None:
                break
            passages.append(self.at(outer))
        return _nested(passages)

    def at(self, frame: FrameType) -> Passage:
        """Return the function that passes on calls from this place."""
        if is_child():
            # No warning is shown in a child, and a line tracer would mistake this function for the
            # program's.
            return _call
        code, names = frame.f_code, frame.f_globals
        key = id(code), frame.f_lasti, id(names)
        known = self._known.get(key)
        if known is not None:
            return known[0]
        if len(self._known) >= MOST_PASSAGES:
            self._known.clear()
        placed = _TEMPLATE.replace(
            co_filename=code.co_filename, co_firstlineno=frame.f_lineno or code.co_firstlineno
        )
        made = FunctionType(placed, names, PASSAGE)
        # Keeps the code alive, so that its identity stays unique.
        self._known[key] = made, code
        return made
