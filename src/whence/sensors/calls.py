"""Sees every torch call while it is on: puts it on the tape, and has its operands in hand when it raises."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

import torch
from torch.autograd import Function, Variable
from torch.autograd.variable import VariableMeta
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode
from torch.utils._device import DeviceContext

from whence.sensors.sensor import Complaints, hide_this_frame
from whence.sensors.warned import Warned
from whence.source.sites import Stacks
from whence.tape.batches import is_from_a_signal
from whence.tape.tape import Call, CustomFunction, Tape

# Reads of metadata: more than half of all events, and never of interest.
QUIET = frozenset(
    {"size", "dim", "stride", "numel", "nelement", "is_floating_point", "is_complex", "element_size", "ndimension",
     "is_contiguous", "storage_offset", "data_ptr", "get_device", "is_same_size", "__len__", "__hash__", "__repr__",
     "__format__", "is_tensor", "is_inference", "_is_view", "untyped_storage", "register_hook", "is_shared",
     "_record_function_enter_new", "_has_compatible_shallow_copy_type", "is_signed", "is_conj", "is_neg"}
)  # fmt: skip


# In training they write running statistics, and torch does not count that as a change.
WRITES_STATISTICS = frozenset({"batch_norm", "instance_norm"})


class Listener(Complaints, Protocol):
    """What the call sensor reports to."""

    tape: Tape

    def current(self) -> dict[str, Any]: ...
    def call_began(self, call: Call, tensors: list[torch.Tensor]) -> None: ...
    def call_failed(self, call: Call, func: Any, args: Any, kwargs: Any, exception: Exception) -> None: ...
    def call_made(self, call: Call, result: Any) -> None: ...


class CallSensor(TorchFunctionMode):
    """A torch function mode. It never changes a call, its result or its exception."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self.listener = listener
        self.on = False
        self.muted = False
        self.failed = False
        self.only_failures = False
        """Calls are not put on the tape, unless they raise: they are an optimizer's of torch's own."""
        self.resting = False
        """The same, until the sensor is taken off or started again: enough of this was seen."""
        self.seconds = 0.0
        self._warned = Warned()
        self._stacks = Stacks()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", None)
        # `x.type()` is a reading, and `x.type(torch.LongTensor)` a cast.
        if self.muted or self.failed or name in QUIET or (name == "type" and len(args) == 1 and not kwargs):
            return func(*args, **kwargs)
        if self.only_failures or self.resting:
            return self._unless_it_fails(func, args, kwargs)
        started = perf_counter()
        call = versions = None
        try:
            call, versions = self._begin(func, args, kwargs)
        except Exception as error:
            self._give_up(error)
        self.seconds += perf_counter() - started
        try:
            result = func(*args, **kwargs)
        except BaseException as exception:
            if call is not None and isinstance(exception, Exception):
                self._report(call, func, args, kwargs, exception)
            hide_this_frame(exception)
            raise
        if call is not None and versions is not None:
            started = perf_counter()
            try:
                self._finish(call, versions, result)
            except Exception as error:
                self._give_up(error)
            self.seconds += perf_counter() - started
        return result

    def _unless_it_fails(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return func(*args, **kwargs)
        except BaseException as exception:
            if isinstance(exception, Exception):
                try:
                    call, _ = self._begin(func, args, kwargs)
                except Exception as error:
                    self._give_up(error)
                else:
                    self._report(call, func, args, kwargs, exception)
            hide_this_frame(exception)
            if exception.__traceback__ is not None:
                hide_this_frame(exception)
            raise

    def _begin(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Call, list[tuple[torch.Tensor, int]]]:
        listener = self.listener
        stack = self._stacks.of(sys._getframe(2))
        tensors: list[torch.Tensor] = []
        call = listener.tape.begin(func, args, kwargs, stack=stack, tensors=tensors, **listener.current())
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
            self.listener.call_failed(call, func, args, kwargs, exception)
        finally:
            self.muted = False

    def _give_up(self, error: Exception) -> None:
        if is_from_a_signal(error):
            # It is the program's own, and only happens to come while we look.
            raise error
        self.failed = True
        self.listener.sensor_failed("calls", error)

    def start(self) -> None:
        """Begin to see calls, unless a mode of the program's own is running: its exit would take ours off instead."""
        self.resting = False
        if not self.on and not self.failed and _only_devices_below():
            self.__enter__()  # type: ignore[no-untyped-call]
            self._from_numpy = torch.from_numpy
            self._shown = torch.from_numpy = self._seen(torch.from_numpy)
            self._apply = vars(Function)["apply"]
            self._shown_apply = Function.apply = self._whole(self._apply)  # type: ignore[method-assign]
            VariableMeta.__call__ = self._wrapping()  # type: ignore[method-assign]
            self._warned.start()
            self.on = True

    def stop(self) -> None:
        """Take the mode off, also from below modes of the program's own."""
        if not self.on:
            return
        self._warned.stop()
        if torch.from_numpy is self._shown:
            torch.from_numpy = self._from_numpy
        if vars(Function)["apply"] is self._shown_apply:
            Function.apply = self._apply  # type: ignore[method-assign]
        if "__call__" in vars(VariableMeta):
            del VariableMeta.__call__
        above: list[TorchFunctionMode] = []
        while torch._C._len_torch_function_stack():
            mode = _pop_mode()  # type: ignore[no-untyped-call]
            if mode is self:
                self.on = False
                break
            above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)  # type: ignore[no-untyped-call]
        # Not there: it is on the stack of another thread, or its handler is running now. Then it only passes calls on.
        self.failed = self.failed or self.on

    def _seen(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """A function that torch does not show to modes, shown to this one."""

        def shown(*args: Any, **kwargs: Any) -> Any:
            try:
                return self.__torch_function__(func, (), args, kwargs)
            except BaseException as exception:
                hide_this_frame(exception)
                raise

        shown.__name__ = shown.__qualname__ = func.__name__
        shown.__module__, shown.__doc__ = "torch", func.__doc__
        return shown

    def _wrapping(self) -> Callable[..., Any]:
        """`Variable(x)`, by which programs of old wrap all that they compute with: a new tensor in the same memory."""
        shown = self._seen(_variable)

        def call(cls: Any, *args: Any, **kwargs: Any) -> Any:
            is_plain = cls is Variable and len(args) == 1 and isinstance(args[0], torch.Tensor)
            try:
                return shown(*args, **kwargs) if is_plain else type.__call__(cls, *args, **kwargs)
            except BaseException as exception:
                hide_this_frame(exception)
                raise

        return call

    def _whole(self, original: Any) -> Any:
        """A custom Function as one call: modes are shown only what its forward does, which has lost its backward."""
        plain = original.__func__

        @functools.wraps(plain)
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if self.muted or self.failed or self.only_failures or torch.compiler.is_compiling():
                    return plain(cls, *args, **kwargs)
                return self._see_whole(CustomFunction(cls, plain), args, kwargs)
            except BaseException as exception:
                hide_this_frame(exception)
                raise

        return classmethod(apply)

    def _see_whole(self, run: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        call = versions = None
        try:
            call, versions = self._begin(run, args, kwargs)
        except Exception as error:
            self._give_up(error)
        tape = self.listener.tape
        tape.depth += 1
        try:
            result = run(*args, **kwargs)
        except BaseException as exception:
            hide_this_frame(exception)
            if exception.__traceback__ is not None:
                hide_this_frame(exception)
            raise
        finally:
            tape.depth -= 1
        if call is not None and versions is not None:
            try:
                self._finish(call, versions, result)
            except Exception as error:
                self._give_up(error)
        return result


def _variable(*args: Any, **kwargs: Any) -> Any:
    return type.__call__(Variable, *args, **kwargs)


_variable.__name__ = "Variable"


def _version(tensor: torch.Tensor) -> int:
    try:
        return -1 if tensor.is_inference() else tensor._version
    except ValueError:
        # A parameter of a lazy module that has not seen an input yet.
        return -1


def _only_devices_below() -> bool:
    """`torch.device` as a context puts itself below all others and takes itself away from there: it does no harm."""
    depth = torch._C._len_torch_function_stack()
    return all(isinstance(torch._C._get_function_stack_at(level), DeviceContext) for level in range(depth))
