"""What all sensors share: they can be taken off without a trace, and one that fails switches itself off."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from threading import get_ident
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol, TypeVar

from whence.tape.batches import is_from_a_signal

T = TypeVar("T")


class Complaints(Protocol):
    """Who is told that a sensor failed."""

    def sensor_failed(self, sensor: str, error: BaseException) -> None: ...


def hide_this_frame(exception: BaseException) -> None:
    """Take the frame that handles an exception out of its traceback.

    A bare `raise` behind this does not enter the frame again: the traceback looks as if we had not been there.
    """
    if exception.__traceback__ is not None:
        exception.__traceback__ = exception.__traceback__.tb_next


UNCOUNTED = "#importlib._bootstrap"
"""What Python looks for in the name of a file whose frames a warning does not count on its way up to the line that it is about."""


@functools.cache
def uncounted(code: CodeType) -> CodeType:
    """The same code, in frames that `stacklevel` passes over: a warning of torch's is about the line that it is about without us."""
    return code.replace(co_filename=code.co_filename + UNCOUNTED)


class Postponed:
    """A look that can wait until something else happens. All sensors of a watch share it: whichever sees something next has it
    taken first."""

    __slots__ = ("_look", "at")

    def __init__(self, look: Callable[[Any], None]) -> None:
        self._look = look
        self.at: Any = None
        """What is to be looked at, if anything."""

    def take(self) -> None:
        at, self.at = self.at, None
        if at is not None:
            self._look(at)


NOTHING = Postponed(lambda _: None)


class Sensor:
    """A thing that listens to torch. It sees only the thread that it was started in."""

    name = "sensor"

    def __init__(self, complaints: Complaints) -> None:
        self._complaints = complaints
        self._undo: list[Callable[[], None]] = []
        self._thread = get_ident()
        self.on = False
        self.failed = False
        self.postponed = NOTHING

    def start(self) -> None:
        if not self.on:
            self._thread = get_ident()
            self.on = True
            self._attach()

    def stop(self) -> None:
        self.on = False
        while self._undo:
            self._undo.pop()()

    def _attach(self) -> None:
        raise NotImplementedError

    def _wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a method until the sensor stops."""
        original = vars(owner)[name]
        made = make(original)
        if isinstance(made, FunctionType):
            made.__code__ = uncounted(made.__code__)
        ours = functools.wraps(original)(made)
        for place, known_as in ((owner, name), *_home_of(owner, original)):
            self._put(place, known_as, original, ours)

    def _put(self, owner: Any, name: str, original: Any, ours: Any) -> None:
        setattr(owner, name, ours)

        def undo() -> None:
            # If the program has put something of its own there since, that stays, and calls ours, which only passes on.
            if vars(owner)[name] is ours:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _guarded(self, look: Callable[..., T], *args: Any) -> T | None:
        """Look, and never let a fault of ours reach the program."""
        if self.failed or get_ident() != self._thread:
            return None
        try:
            if self.postponed.at is not None:
                self.postponed.take()
            return look(*args)
        except Exception as error:
            if is_from_a_signal(error):
                raise
            self.failed = True
            self._complaints.sensor_failed(self.name, error)
            return None


def _home_of(owner: Any, original: Any) -> Iterator[tuple[ModuleType, str]]:
    """Where a function of another module's is defined: pickle, which sends it to other processes by that name, wants the same one there."""
    home = sys.modules.get(getattr(original, "__module__", None) or "")
    name = getattr(original, "__qualname__", "")
    if isinstance(owner, ModuleType) and home is not None and home is not owner and vars(home).get(name) is original:
        yield home, name
