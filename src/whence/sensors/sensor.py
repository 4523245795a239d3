"""What all sensors share: they can be taken off without a trace, and one that fails switches itself off."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from threading import get_ident
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Protocol, TypeVar

import torch
from torch import is_grad_enabled
from torch.optim import Optimizer

from whence.sensors.gate import is_closed
from whence.source.interrupts import is_interrupt
from whence.source.sites import PASSAGE, is_own
from whence.torch_internals import WithoutSubclasses, set_grad_enabled

T = TypeVar("T")


class Complaints(Protocol):
    """Who is told that a sensor failed."""

    def sensor_failed(self, sensor: str, error: BaseException) -> None: ...
    def interrupted(self) -> None: ...


class CannotStart(Exception):
    """This torch lacks something that a sensor attaches itself to."""

    def __init__(self, sensor: str, sees: str, error: BaseException) -> None:
        version = str(torch.__version__).partition("+")[0]
        reason = f"{type(error).__name__}: {error}"
        super().__init__(
            f"{sees}: the {sensor} sensor could not start on torch {version} ({reason})"
        )


def hide_own_frames(exception: BaseException) -> None:
    """Take our frames out of the traceback of an exception that is passing through them.

    A bare `raise` behind this does not enter the frame again: the traceback looks as if we had not been there.
    """
    traceback = exception.__traceback__
    while traceback is not None and _is_ours(traceback.tb_frame.f_code):
        traceback = traceback.tb_next
    exception.__traceback__ = traceback


def _is_ours(code: CodeType) -> bool:
    return code.co_name == PASSAGE or is_own(code.co_filename)


UNCOUNTED = "#importlib._bootstrap"
"""What Python looks for in the name of a file whose frames a warning does not count on its way up to the line that it is about."""


@functools.cache
def uncounted(code: CodeType) -> CodeType:
    """The same code, in frames that `stacklevel` passes over: a warning of torch's is about the line that it is about without us."""
    return code.replace(co_filename=code.co_filename + UNCOUNTED)


F = TypeVar("F", bound=Callable[..., Any])
PASS_THROUGH: set[CodeType] = set()
"""The code by which calls of the program go through sensors: the only code of ours that the program runs below."""


def passes_through(function: F) -> F:
    """Declare that the program runs below a function. Warnings do not count its frame."""
    made: Any = function
    made.__code__ = uncounted(made.__code__)
    PASS_THROUGH.add(made.__code__)
    return function


class Postponed:
    """A look that can wait until something else happens. All sensors of a watch share it: whichever sees something next has it
    taken first."""

    __slots__ = ("_look", "_look_within", "at")

    def __init__(self, look: Callable[[Any], None], look_within: Callable[[Any], None]) -> None:
        self._look = look
        self._look_within = look_within
        self.at: Any = None
        """What is to be looked at, if anything."""

    def take(self) -> None:
        at = self.at
        if at is not None:
            self.at = None
            self._look(at)

    def take_within(self) -> None:
        """The same below the guard of a sensor: another guard would ask the same questions again."""
        at, self.at = self.at, None
        self._look_within(at)


NOTHING = Postponed(lambda _: None, lambda _: None)


class Routine(Protocol):
    """The short way for a step like all others. Sensors ask it first, and their listener if it does not do."""

    on: bool
    hears_end: bool
    """Whether the end of the backward under way is of interest."""

    def backward_began(self, loss: torch.Tensor, frame: FrameType | None) -> bool: ...
    def step_began(self, optimizer: Optimizer, frame: FrameType | None) -> bool: ...
    def step_ended(self, optimizer: Optimizer, steps: int, frame: FrameType | None) -> bool: ...


class Guarded:
    """Code of ours that runs within the program: no fault of it reaches the program."""

    name = "sensor"
    sees = "anything"
    """What the report names as not watched where the sensor cannot start."""

    def __init__(self, complaints: Complaints) -> None:
        self._complaints = complaints
        self.failed = False
        self.ran_out_of_stack = False
        """It has failed where the stack had no room for a report of that."""

    def _guarded(self, look: Callable[..., T], *args: Any) -> T | None:
        """Run a check that no fault of ours leaves."""
        grad = is_grad_enabled()
        try:
            with WithoutSubclasses():
                return look(*args)
        except BaseException as error:
            if self._is_interrupted_by(error, grad):
                raise
            return None

    def _is_interrupted_by(self, error: BaseException, grad: bool) -> bool:
        """Tell whether an exception is the program's own, which only happens to arrive meanwhile.

        Any other is a fault of ours, and switches the sensor off.
        """
        set_grad_enabled(grad)
        if not isinstance(error, RecursionError) and is_interrupt(error):
            self._complaints.interrupted()
            return True
        self.failed = True
        try:
            self._complaints.sensor_failed(self.name, error)
        except RecursionError:
            self.ran_out_of_stack = True
        return False


class Sensor(Guarded):
    """A thing that listens to torch. It sees only the thread that it was started in."""

    def __init__(self, complaints: Complaints) -> None:
        super().__init__(complaints)
        self._undo: list[Callable[[], None]] = []
        self._thread = get_ident()
        self.on = False
        self.postponed = NOTHING
        self.routine: Routine | None = None

    def start(self) -> None:
        """Attach to torch. A sensor that cannot costs itself and no other: it detaches and is reported."""
        if self.on or self.failed:
            return
        self._thread = get_ident()
        self.on = True
        try:
            self._attach()
        except BaseException as error:
            self.stop()
            if not isinstance(error, Exception) or is_interrupt(error):
                raise
            self.failed = True
            self._complaints.sensor_failed(self.name, CannotStart(self.name, self.sees, error))

    def stop(self) -> None:
        self.on = False
        while self._undo:
            self._undo.pop()()

    def _attach(self) -> None:
        raise NotImplementedError

    def _wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a method until the sensor stops. One that a class inherits is put into the class itself."""
        original = _found_in(owner, name)
        made = make(original)
        if isinstance(made, FunctionType):
            passes_through(made)
        ours = functools.wraps(original)(made)
        for place, known_as in ((owner, name), *_home_of(owner, original)):
            self._put(place, known_as, original, ours)

    def _put(self, owner: Any, name: str, original: Any, ours: Any) -> None:
        is_inherited = name not in vars(owner)
        setattr(owner, name, ours)

        def undo() -> None:
            # If the program has put something of its own there since, that stays, and calls ours, which only passes on.
            if vars(owner).get(name) is not ours:
                return
            if is_inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _guarded(self, look: Callable[..., T], *args: Any) -> T | None:
        """Run a look, and before it the one that was postponed, unless this is not the place."""
        if self.failed or get_ident() != self._thread or is_closed():
            return None
        grad = is_grad_enabled()
        try:
            with WithoutSubclasses():
                if self.postponed.at is not None:
                    self.postponed.take_within()
                return look(*args)
        except BaseException as error:
            if self._is_interrupted_by(error, grad):
                raise
            return None

    def _goes_on(
        self, look: Callable[[T, FrameType | None], bool], at: T, frame: FrameType | None
    ) -> bool:
        """The same for what comes in every step. Arguments are not packed: that would take half as long again."""
        if self.failed or get_ident() != self._thread or is_closed():
            return False
        grad = is_grad_enabled()
        try:
            with WithoutSubclasses():
                if self.postponed.at is not None:
                    self.postponed.take_within()
                return look(at, frame)
        except BaseException as error:
            if self._is_interrupted_by(error, grad):
                raise
            return False


def _found_in(owner: Any, name: str) -> Any:
    for each in getattr(owner, "__mro__", (owner,)):
        if name in vars(each):
            return vars(each)[name]
    raise AttributeError(f"{owner.__name__} has no {name}")


def _home_of(owner: Any, original: Any) -> Iterator[tuple[ModuleType, str]]:
    """Where a function of another module's is defined: pickle, which sends it to other processes by that name, wants the same one there."""
    home = sys.modules.get(getattr(original, "__module__", None) or "")
    name = getattr(original, "__qualname__", "")
    if (
        isinstance(owner, ModuleType)
        and home is not None
        and home is not owner
        and vars(home).get(name) is original
    ):
        yield home, name
