"""Sensor for every torch call while it is on.

It puts each call on the tape, and has the operands at hand if the call raises.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from time import thread_time
from types import FrameType
from typing import Any, Protocol, TypeVar

import torch
from torch.autograd import Function, Variable
from torch.autograd.variable import VariableMeta
from torch.overrides import TorchFunctionMode

from whence.sensors.detours import HANDED_OVER, hide_hand_over
from whence.sensors.gate import is_closed, own_modes
from whence.sensors.passage import Passages
from whence.sensors.sensor import (
    UNCOUNTED,
    CannotStart,
    Complaints,
    Guarded,
    hide_own_frames,
    passes_through,
)
from whence.source.interrupts import is_interrupt
from whence.source.sites import Stacks
from whence.tape.native import original_of
from whence.tape.tape import Call, CustomFunction, Tape
from whence.torch_internals import (
    DeviceContext,
    function_modes,
    pop_function_mode,
    push_function_mode,
    take_off_function_mode,
)

# Reads of metadata: more than half of all events, and never of interest.
QUIET = frozenset(
    {"size", "dim", "stride", "numel", "nelement", "is_floating_point", "is_complex",
     "element_size", "ndimension", "is_contiguous", "storage_offset", "data_ptr", "get_device",
     "is_same_size", "__len__", "__hash__", "__repr__", "__format__", "is_tensor", "is_inference",
     "_is_view", "untyped_storage", "register_hook", "is_shared", "_record_function_enter_new",
     "_has_compatible_shallow_copy_type", "is_signed", "is_conj", "is_neg"}
)  # fmt: skip


OUTER = 3
"""The `_stacklevel` at which a function that warns about its callers finds the first of them."""
T = TypeVar("T")

# In training these update running statistics, which PyTorch does not count as a change.
WRITES_STATISTICS = frozenset({"batch_norm", "instance_norm"})


passes_through(CustomFunction.__call__)


class Listener(Complaints, Protocol):
    """The receiver of the call sensor's reports."""

    tape: Tape

    def current(self, frame: FrameType | None) -> dict[str, Any]: ...
    def calls_missed(self) -> None: ...
    def interrupted(self) -> None: ...
    def call_began(self, call: Call, tensors: list[torch.Tensor]) -> None: ...
    def call_failed(
        self, call: Call, func: Any, args: Any, kwargs: Any, exception: Exception
    ) -> None: ...
    def call_made(self, call: Call, result: Any) -> None: ...


class CallSensor(Guarded, TorchFunctionMode):
    """A torch function mode that never changes a call, its result or its exception."""

    name = "calls"
    sees = "torch calls"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self.on = False
        self.muted = False
        self.only_failures = False
        """Record only calls that raise: the others are made by PyTorch's own optimizer."""
        self.resting = False
        """Record only calls that raise, until the sensor stops or restarts: enough was seen."""
        self.seconds = 0.0
        """CPU time spent on recording."""
        self.is_counting = False
        """Recording is under way, and its time is counted here."""
        self._is_aside = False
        """Removed from the stack of modes while Whence itself computes."""
        self._stacks = Stacks()
        self._passages = Passages()
        own_modes.add(id(self))

    @passes_through
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        caller: Any = sys._getframe(1)
        handed_over_in = None
        if caller.f_code is HANDED_OVER:
            func = original_of(func)
            caller = handed_over_in = caller.f_back.f_back
            while caller.f_code.co_filename.endswith(UNCOUNTED):
                # Called through another sensor.
                caller = caller.f_back
        try:
            return self._see(caller, func, args, kwargs)
        except BaseException as exception:
            hide_own_frames(exception)
            hide_hand_over(exception, handed_over_in)
            raise

    @passes_through
    def _see(
        self,
        caller: FrameType,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Make a call and put it on the tape."""
        name = getattr(func, "__name__", None)
        if self.muted:
            return func(*args, **kwargs)
        levels = kwargs.get("_stacklevel", 0)
        pass_on = (
            self._passages.below(caller, levels - OUTER)
            if levels > OUTER
            else self._passages.at(caller)
        )
        # `x.type()` only reads; `x.type(torch.LongTensor)` casts.
        is_reading = name in QUIET or (name == "type" and len(args) == 1 and not kwargs)
        if is_reading or self.failed or (is_closed() and self._misses()):
            return pass_on(func, args, kwargs)
        if self.only_failures or self.resting:
            return self._unless_it_fails(caller, func, args, kwargs)
        call = self._counted(self._begin, caller, func, args, kwargs)
        try:
            result = pass_on(func, args, kwargs)
        except BaseException as exception:
            if call is not None and isinstance(exception, Exception):
                self._report(call[0], func, args, kwargs, exception)
            hide_own_frames(exception)
            raise
        if call is not None:
            self._counted(self._finish, *call, result)
        return result

    @passes_through
    def _unless_it_fails(
        self, caller: FrameType, func: Callable[..., Any], args: Any, kwargs: Any
    ) -> Any:
        try:
            return self._passages.at(caller)(func, args, kwargs)
        except BaseException as exception:
            if isinstance(exception, Exception):
                call = self._guarded(self._begin, caller, func, args, kwargs)
                if call is not None:
                    self._report(call[0], func, args, kwargs, exception)
            hide_own_frames(exception)
            raise

    def _misses(self) -> bool:
        """Note that calls are not seen: steps that depend on them cannot be replayed."""
        self._guarded(self.listener.calls_missed)
        return True

    def _begin(
        self,
        caller: FrameType,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[Call, list[tuple[torch.Tensor, int]]]:
        listener = self.listener
        stack = self._stacks.of(caller)
        tensors: list[torch.Tensor] = []
        call = listener.tape.begin(
            func, args, kwargs, stack=stack, tensors=tensors, **listener.current(caller)
        )
        listener.call_began(call, tensors)
        return call, [(tensor, _version(tensor)) for tensor in tensors]

    def _finish(self, call: Call, versions: list[tuple[torch.Tensor, int]], result: Any) -> None:
        changed = [tensor for tensor, version in versions if _version(tensor) != version]
        if call.name in WRITES_STATISTICS and True in call.args + tuple(call.kwargs.values()):
            changed += [tensor for tensor, _ in versions[1:] if not tensor.requires_grad]
        self.listener.tape.finish(call, result, changed)
        self.listener.call_made(call, result)

    def _report(self, call: Call, func: Any, args: Any, kwargs: Any, exception: Exception) -> None:
        self.muted = True
        try:
            self._guarded(self.listener.call_failed, call, func, args, kwargs, exception)
        finally:
            self.muted = False

    def _counted(self, check: Callable[..., T], *args: Any) -> T | None:
        """Record, and count the CPU time spent."""
        began = thread_time()
        self.is_counting = True
        try:
            return self._guarded(check, *args)
        finally:
            self.is_counting = False
            self.seconds += thread_time() - began

    def start(self) -> None:
        """Start recording calls, unless a mode of the program is active.

        On exit, such a mode would pop ours instead of itself. `torch.device` as a context does no
        harm: it enters below all other modes and removes itself from there.
        """
        self.resting = False
        modes = function_modes()
        if self.on or self.failed or modes is None:
            return
        if not all(isinstance(each, DeviceContext) for each in modes):
            return
        try:
            # Look up everything that this PyTorch may lack before changing anything.
            self._from_numpy, self._apply = torch.from_numpy, vars(Function)["apply"]
            self._shown, self._shown_apply = self._seen(self._from_numpy), self._whole(self._apply)
            wrapping = self._wrapping()
            self.__enter__()  # type: ignore[no-untyped-call]
        except Exception as error:
            if is_interrupt(error):
                raise
            self.failed = True
            self.listener.sensor_failed(self.name, CannotStart(self.name, self.sees, error))
            return
        torch.from_numpy = self._shown
        Function.apply = self._shown_apply  # type: ignore[method-assign]
        VariableMeta.__call__ = wrapping  # type: ignore[method-assign]
        self.on = True

    def stop(self) -> None:
        """Remove the mode, even from below the program's own modes."""
        if not self.on:
            return
        if torch.from_numpy is self._shown:
            torch.from_numpy = self._from_numpy
        if vars(Function)["apply"] is self._shown_apply:
            Function.apply = self._apply  # type: ignore[method-assign]
        if "__call__" in vars(VariableMeta):
            del VariableMeta.__call__
        self.on = not (self._is_aside or take_off_function_mode(self))
        self._is_aside = False
        # Still on: it is on another thread's stack, or its handler is running now. Then it only
        # passes calls on.
        self.failed = self.failed or self.on

    def step_aside(self) -> None:
        """Leave the stack of modes while Whence computes: PyTorch then calls none of our Python."""
        modes = function_modes() if self.on else None
        if modes and modes[-1] is self:
            self._is_aside = True
            pop_function_mode()

    def step_back(self) -> None:
        """Undo `step_aside`, unless the sensor was stopped meanwhile."""
        if self._is_aside:
            push_function_mode(self)
            self._is_aside = False

    def _seen(self, func: Callable[..., Any], depth: int = 1) -> Callable[..., Any]:
        """Show this mode a function that PyTorch shows to no mode.

        `depth` is the number of frames out to its caller.
        """

        @passes_through
        def shown(*args: Any, **kwargs: Any) -> Any:
            try:
                return self._see(sys._getframe(depth), func, args, kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise

        shown.__name__ = shown.__qualname__ = func.__name__
        shown.__module__, shown.__doc__ = "torch", func.__doc__
        return shown

    def _wrapping(self) -> Callable[..., Any]:
        """Wrap `Variable(x)`, which old programs apply to everything they compute with.

        It returns a new tensor that shares memory with `x`.
        """
        shown = self._seen(_variable, depth=2)

        @passes_through
        def call(cls: Any, *args: Any, **kwargs: Any) -> Any:
            is_plain = cls is Variable and len(args) == 1 and isinstance(args[0], torch.Tensor)
            try:
                return shown(*args, **kwargs) if is_plain else type.__call__(cls, *args, **kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise

        return call

    def _whole(self, original: Any) -> Any:
        """Record a custom Function as one call.

        Modes see only the operations of its forward, which lack its backward.
        """
        # Up to torch 2.14 this is a Python class method; from 2.15 on it is a C method called with
        # the class.
        plain = getattr(original, "__func__", original)

        @passes_through
        @functools.wraps(plain)
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if (
                    self.muted
                    or self.failed
                    or self.only_failures
                    or torch.compiler.is_compiling()
                    or is_closed()
                ):
                    return plain(cls, *args, **kwargs)
                return self._see_whole(sys._getframe(1), CustomFunction(cls, plain), args, kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise

        return classmethod(apply)

    @passes_through
    def _see_whole(self, caller: FrameType, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        call = self._guarded(self._begin, caller, run, args, kwargs)
        tape = self.listener.tape
        tape.depth += 1
        try:
            result = self._passages.at(caller)(run, args, kwargs)
        except BaseException as exception:
            hide_own_frames(exception)
            raise
        finally:
            tape.depth -= 1
        if call is not None:
            self._guarded(self._finish, *call, result)
        return result


def _variable(*args: Any, **kwargs: Any) -> Any:
    return type.__call__(Variable, *args, **kwargs)


_variable.__name__ = "Variable"


def _version(tensor: torch.Tensor) -> int:
    try:
        return -1 if tensor.is_inference() else tensor._version
    except ValueError:
        # A parameter of a lazy module that has not received an input yet.
        return -1
