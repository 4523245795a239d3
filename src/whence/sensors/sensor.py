"""Base classes of sensors.

A sensor can be removed without a trace, and switches itself off if it fails.
"""

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
    """Receiver of sensor failures."""

    def sensor_failed(self, sensor: str, error: BaseException) -> None: ...
    def interrupted(self) -> None: ...


class CannotStart(Exception):
    """This PyTorch lacks something that a sensor attaches to."""

    def __init__(self, sensor: str, sees: str, error: BaseException) -> None:
        version = str(torch.__version__).partition("+")[0]
        reason = f"{type(error).__name__}: {error}"
        super().__init__(
            f"{sees}: the {sensor} sensor could not start on torch {version} ({reason})"
        )


def hide_own_frames(exception: BaseException) -> None:
    """Remove our frames from the traceback of an exception that passes through them.

    A bare `raise` after this does not add the frame again, so the traceback equals a plain run's.
    """
    traceback = exception.__traceback__
    while traceback is not None and _is_ours(traceback.tb_frame.f_code):
        traceback = traceback.tb_next
    exception.__traceback__ = traceback


def _is_ours(code: CodeType) -> bool:
    return code.co_name == PASSAGE or is_own(code.co_filename)


UNCOUNTED = "#importlib._bootstrap"
"""A file name with this part is skipped by Python when it counts the `stacklevel` of a warning."""


@functools.cache
def uncounted(code: CodeType) -> CodeType:
    """Return the same code in a file whose frames `stacklevel` skips.

    PyTorch's warnings then name the same line as in a plain run.
    """
    return code.replace(co_filename=code.co_filename + UNCOUNTED)


F = TypeVar("F", bound=Callable[..., Any])
PASS_THROUGH: set[CodeType] = set()
"""Code that passes the program's calls on. Nothing else of Whence calls the program."""


def passes_through(function: F) -> F:
    """Declare that the program runs below a function, so that warnings skip its frame."""
    made: Any = function
    made.__code__ = uncounted(made.__code__)
    PASS_THROUGH.add(made.__code__)
    return function


class Postponed:
    """A check that waits until something else happens.

    All sensors of a watch share it: the next sensor that is called runs it first.
    """

    __slots__ = ("_check", "_check_within", "at")

    def __init__(self, check: Callable[[Any], None], check_within: Callable[[Any], None]) -> None:
        self._check = check
        self._check_within = check_within
        self.at: Any = None
        """The object to inspect, if any."""

    def take(self) -> None:
        at = self.at
        if at is not None:
            self.at = None
            self._check(at)

    def take_within(self) -> None:
        """Run the check within a sensor's guard, without the cost of a second guard."""
        at, self.at = self.at, None
        self._check_within(at)


NOTHING = Postponed(lambda _: None, lambda _: None)


class Routine(Protocol):
    """The short path for a step like all others.

    Sensors call it first, and call their listener if it declines.
    """

    on: bool
    hears_end: bool
    """Whether the end of the current backward is of interest."""

    def backward_began(self, loss: torch.Tensor, frame: FrameType | None) -> bool: ...
    def step_began(self, optimizer: Optimizer, frame: FrameType | None) -> bool: ...
    def step_ended(self, optimizer: Optimizer, steps: int, frame: FrameType | None) -> bool: ...


class Guarded:
    """Whence's code that runs within the program; its faults never reach the program."""

    name = "sensor"
    sees = "anything"
    """What the report lists as not watched if the sensor cannot start."""

    def __init__(self, complaints: Complaints) -> None:
        self._complaints = complaints
        self.failed = False
        self.ran_out_of_stack = False
        """It failed where the stack had no room to report that."""

    def _guarded(self, check: Callable[..., T], *args: Any) -> T | None:
        """Run a check and let none of our faults escape."""
        grad = is_grad_enabled()
        try:
            with WithoutSubclasses():
                return check(*args)
        except BaseException as error:
            if self._is_interrupted_by(error, grad):
                raise
            return None

    def _is_interrupted_by(self, error: BaseException, grad: bool) -> bool:
        """Return whether an exception belongs to the program and only arrived during a check.

        Any other exception is our fault and switches the sensor off.
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
    """An observer attached to PyTorch, in the thread that started it."""

    def __init__(self, complaints: Complaints) -> None:
        super().__init__(complaints)
        self._undo: list[Callable[[], None]] = []
        self._thread = get_ident()
        self.on = False
        self.postponed = NOTHING
        self.routine: Routine | None = None

    def start(self) -> None:
        """Attach to PyTorch.

        A sensor that cannot attach detaches and is reported; the other sensors are not affected.
        """
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
        """Replace a method until the sensor stops.

        An inherited method is replaced in the class itself.
        """
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
            # If the program has replaced it since, that replacement stays. It calls ours, which
            # only passes on.
            if vars(owner).get(name) is not ours:
                return
            if is_inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _guarded(self, check: Callable[..., T], *args: Any) -> T | None:
        """Run a check in the watched thread, after the postponed one, unless the gate is closed."""
        if self.failed or get_ident() != self._thread or is_closed():
            return None
        grad = is_grad_enabled()
        try:
            with WithoutSubclasses():
                if self.postponed.at is not None:
                    self.postponed.take_within()
                return check(*args)
        except BaseException as error:
            if self._is_interrupted_by(error, grad):
                raise
            return None

    def _goes_on(
        self, check: Callable[[T, FrameType | None], bool], at: T, frame: FrameType | None
    ) -> bool:
        """Run a check that occurs in every step.

        Arguments are not packed, which would take half as long again.
        """
        if self.failed or get_ident() != self._thread or is_closed():
            return False
        grad = is_grad_enabled()
        try:
            with WithoutSubclasses():
                if self.postponed.at is not None:
                    self.postponed.take_within()
                return check(at, frame)
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
    """Find where a function imported from another module is defined.

    pickle sends it to other processes by that name, and requires the same object there.
    """
    home = sys.modules.get(getattr(original, "__module__", None) or "")
    name = getattr(original, "__qualname__", "")
    if (
        isinstance(owner, ModuleType)
        and home is not None
        and home is not owner
        and vars(home).get(name) is original
    ):
        yield home, name
