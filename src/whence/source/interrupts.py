"""Exceptions that a signal handler raises, wherever the program or Whence happens to be."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from types import CodeType, FrameType, MethodType
from typing import Any

from whence.source.sites import frames_in

SIGNALS = tuple(map(int, signal.valid_signals()))
Handler = Callable[[int, FrameType | None], Any]


def handlers() -> dict[int, Handler]:
    """Return the Python functions that handle signals now, without the default for Ctrl-C."""
    found: dict[int, Handler] = {}
    for number in SIGNALS:
        # `signal.getsignal`, which is written in Python, takes ten times as long.
        handler = _signal.getsignal(number)
        if callable(handler) and handler is not _signal.default_int_handler:
            found[number] = handler
    return found


def is_interrupt(error: BaseException) -> bool:
    """Return whether a signal handler raised an exception, or it is no error (Ctrl-C, exit)."""
    if not isinstance(error, Exception):
        return True
    codes = {code for each in handlers().values() if (code := _code_of(each)) is not None}
    return any(frame.f_code in codes for frame in frames_in(error.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    handler = getattr(handler, "func", handler)
    function = getattr(handler, "__func__", handler)
    code = getattr(function, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


class HeldSignals:
    """Hold back the program's signal handlers while Whence works, and call them afterwards.

    A handler may raise. That exception belongs to the program. In the middle of our work it would
    meet `except` clauses that were written for other errors.
    """

    __slots__ = ("_came", "_handlers")

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}
        self._came: list[int] = []

    def hold(self) -> None:
        if threading.get_ident() != MAIN_THREAD:
            return
        for number, handler in handlers().items():
            self._handlers[number] = handler
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._came.append(number)

    def release(self) -> list[tuple[int, Handler]]:
        """Restore the handlers, and return those that are due."""
        if not self._handlers:
            return []
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, handler)
        due = [(number, self._handlers[number]) for number in dict.fromkeys(self._came)]
        self._handlers, self._came = {}, []
        return due

    def handler_of(self, number: int) -> Handler | None:
        """Return the handler that is held back for a signal."""
        return self._handlers.get(number)

    def is_due(self) -> bool:
        """Return whether a handler is due; that of SIGCHLD can wait."""
        return any(number != signal.SIGCHLD for number in self._came)


def handler_of(number: int) -> Any:
    """Return the program's handler of a signal, even while it is held back."""
    handler = _signal.getsignal(number)
    while (holder := _holder_of(handler)) is not None:
        handler = holder.handler_of(number)
    return handler


def is_signal_due() -> bool:
    """Return whether a signal for the program has arrived while its handlers are held back."""
    holders = (_holder_of(_signal.getsignal(number)) for number in SIGNALS)
    return any(each is not None and each.is_due() for each in holders)


def _holder_of(handler: object) -> HeldSignals | None:
    """Return the object that holds a handler back.

    Checks types only, because a handler may be any object of the program.
    """
    if type(handler) is MethodType and type(handler.__self__) is HeldSignals:
        return handler.__self__
    return None


MAIN_THREAD = threading.main_thread().ident
