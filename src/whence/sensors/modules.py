"""Sees modules: where each was built, which one is running, and which one raised without a torch call having done so."""

from __future__ import annotations

import copy
import functools
import sys
import weakref
from collections import OrderedDict
from types import FrameType
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules import module as torch_module

from whence.sensors.sensor import Complaints, Sensor, hide_this_frame
from whence.source.sites import Site, is_library, is_own, user_stack
from whence.tape.scopes import ModuleBook, Scope

# With a function mode on the stack these take another path through their code, and give another result:
# nn.TransformerEncoder's inference fast path differs by 2.4 at padded positions.
FAST_PATHS = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)

MODULE_FILE = torch_module.__file__

OFTEN = 64
"""Calls of modules after which it is asked whether they are worth it, in programs that make no steps."""
MOST_USUAL = 16
MOST_SETSTATES = 4
"""Classes that may have a __setstate__ of their own in front of nn.Module's."""


class Listener(Complaints, Protocol):
    modules: ModuleBook
    scope: Scope | None

    def enters_as_ever(self, module: nn.Module, args: tuple[Any, ...]) -> bool: ...
    def module_entered(self, module: nn.Module, args: tuple[Any, ...]) -> None: ...
    def module_failed(self, module: nn.Module, args: tuple[Any, ...], exception: Exception) -> None: ...
    def recording(self) -> bool: ...
    def entered_often(self) -> None: ...
    def pause_calls(self) -> bool: ...
    def resume_calls(self) -> None: ...


class ModuleSensor(Sensor):
    name = "modules"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self._paused_by: nn.Module | None = None
        self._root: nn.Module | None = None
        self._aside: tuple[nn.Module, OrderedDict[int, Any]] | None = None
        """The outermost module while it runs alone with a hook, and its hooks as they were before."""
        self._usual: dict[int, Scope] = {}
        """Of modules that were outermost while nothing was recorded, by identity."""
        self._hooks: tuple[tuple[dict[int, Any], int, Any], ...] = ()
        self.calls = 0
        """Module calls since somebody set this to 0."""

    def _attach(self) -> None:
        self._wrap(nn.Module, "__init__", self._wrap_init)
        self._wrap(nn.Module, "__setstate__", self._wrap_setstate)
        self._wrap(nn.Module, "register_parameter", self._wrap_register)
        before = torch_module.register_module_forward_pre_hook(self._before)
        after = torch_module.register_module_forward_hook(self._after, always_call=True)
        self._hooks = (
            (torch_module._global_forward_pre_hooks, before.id, self._before),
            (torch_module._global_forward_hooks, after.id, self._after),
        )
        self._undo += [before.remove, after.remove, self._take_back]

    def _wrap_init(self, original: Any) -> Any:
        def __init__(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            try:
                original(module, *args, **kwargs)
            except BaseException as exception:
                hide_this_frame(exception)
                raise
            builder = _constructor(module)
            self._guarded(self._note_construction, module, user_stack(builder))

        return __init__

    def _note_construction(self, module: nn.Module, stack: tuple[Site, ...]) -> None:
        self.listener.modules.note_construction(module, stack)
        if self.listener.scope is not None:
            self.listener.modules.note_inside(stack)

    def _wrap_setstate(self, original: Any) -> Any:
        def __setstate__(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            try:
                original(module, *args, **kwargs)
            except BaseException as exception:
                hide_this_frame(exception)
                raise
            self._guarded(self._note_copy, module)

        return __setstate__

    def _note_copy(self, module: nn.Module) -> None:
        """In `copy.deepcopy` of a module, what is copied is a variable of the function that puts the copy together."""
        frame = sys._getframe(2).f_back
        for _ in range(MOST_SETSTATES):
            if frame is None:
                return
            if frame.f_code is copy._reconstruct.__code__ and frame.f_locals.get("y") is module:  # type: ignore[attr-defined]
                self.listener.modules.note_copy(module, frame.f_locals["x"], user_stack(frame))
                return
            frame = frame.f_back

    def _wrap_register(self, original: Any) -> Any:
        def register_parameter(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            try:
                original(module, *args, **kwargs)
            except BaseException as exception:
                hide_this_frame(exception)
                raise
            self._guarded(self._note_registration, args[1] if len(args) > 1 else kwargs.get("param"))

        return register_parameter

    def _note_registration(self, tensor: Any) -> None:
        """Of interest is what comes into a model that was built already."""
        stack = user_stack(sys._getframe(3))
        if isinstance(tensor, torch.Tensor) and stack and stack[0].function != "__init__":
            self.listener.modules.note_registration(tensor, stack)

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self.calls += 1
        # While nothing is recorded only the outermost module is of interest.
        if self._root is None or self.listener.recording():
            self._guarded(self._come_in, module, args)

    def _come_in(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        listener, usual = self.listener, self._usual.get(id(module))
        is_known = usual is not None and usual.ref() is module and usual.training is module.training
        if is_known and listener.scope is None and listener.enters_as_ever(module, args):
            self._root, listener.scope = module, usual
            if not listener.recording():
                self._step_aside(module)
        elif listener.recording():
            self._enter(module, args)
        else:
            self._root = module
            self._enter_alone(module, args)

    def _enter_alone(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """The outermost module, while nothing is recorded: what it is given may change that."""
        listener = self.listener
        # Recording may have ended within another one.
        is_outermost = listener.scope is None
        self._enter(module, args)
        if is_outermost and listener.scope is not None:
            if len(self._usual) >= MOST_USUAL:
                self._usual.clear()
            self._usual[id(module)] = listener.scope
        if self.on and not listener.recording():
            self._step_aside(module)

    def _step_aside(self, module: nn.Module) -> None:
        """With a global hook every module takes the long way through its call. What is within the outermost one is of no interest
        while nothing is recorded: that one has a hook of its own for as long as it runs, and the global ones are off."""
        state = vars(module)
        own, always = state.get("_forward_hooks"), state.get("_forward_hooks_always_called")
        if own is None or always is None:
            return
        number = self._hooks[1][1]
        # Torch goes through these hooks while ours takes itself off: it is another dict that it finds them in.
        state["_forward_hooks"] = OrderedDict(own)
        state["_forward_hooks"][number] = _Exit(self._after)
        always[number] = True
        self._aside = module, own
        for hooks, key, _ in self._hooks:
            hooks.pop(key, None)

    def _take_back(self) -> None:
        """The outermost module's hooks are as they were."""
        if self._aside is None:
            return
        (module, own), self._aside = self._aside, None
        state, number = vars(module), self._hooks[1][1]
        used, state["_forward_hooks"] = state["_forward_hooks"], own
        if len(used) != len(own) + 1:
            # The program has added or removed some while it ran.
            own.clear()
            own.update((key, hook) for key, hook in used.items() if key != number)
        state["_forward_hooks_always_called"].pop(number, None)

    def _come_back(self) -> None:
        self._take_back()
        for hooks, key, hook in self._hooks:
            hooks[key] = hook

    def start(self) -> None:
        super().start()
        if self._aside is not None:
            self._come_back()

    def _after(self, module: nn.Module, args: tuple[Any, ...], _result: Any) -> None:
        self._guarded(self._go_out, module, args, sys._getframe(1))

    def _go_out(self, module: nn.Module, args: tuple[Any, ...], frame: FrameType) -> None:
        root, exception = self._root, sys.exception()
        if module is root:
            self._root = None
            if self._aside is not None:
                self._come_back()
        elif root is not None and not self.listener.recording():
            return
        raised = exception if isinstance(exception, Exception) and _raised_below(exception, frame) else None
        self._leave(module, args, raised)

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        listener = self.listener
        if listener.scope is None:
            listener.modules.note_root(module)
        outer = listener.scope
        called_from = user_stack(sys._getframe(2)) if outer is None and listener.recording() else ()
        stack = listener.modules.built_at(module)
        built = stack[0] if stack and listener.modules.times_built_inside(stack[0]) else None
        direct = bool(called_from) and _is_called_directly(sys._getframe(2))
        kind = type(module).__name__
        listener.scope = Scope(weakref.ref(module), kind, outer, module.training, built, called_from, direct)
        self._announce(module, args)

    def _announce(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self.listener.module_entered(module, args)
        fast = isinstance(module, FAST_PATHS) and not module.training
        if fast and self._paused_by is None and self.listener.pause_calls():
            self._paused_by = module

    def _leave(self, module: nn.Module, args: tuple[Any, ...], raised: Exception | None) -> None:
        try:
            if raised is not None:
                self.listener.module_failed(module, args, raised)
        finally:
            scope = self.listener.scope
            if scope is not None:
                self.listener.scope = scope.parent if scope.ref() is module else _left(scope, module)
            if self._paused_by is module:
                self._paused_by = None
                self.listener.resume_calls()
            if self.calls >= OFTEN and self.listener.scope is None and not self.listener.recording():
                self.listener.entered_often()


class _Exit(functools.partial[None]):
    """The hook of a module that runs alone with one. A copy of the module, made while it runs, has one that does nothing."""

    def __deepcopy__(self, _memo: Any) -> _Exit:
        return _Exit(_do_nothing)

    def __reduce__(self) -> tuple[type[_Exit], tuple[Any]]:
        return _Exit, (_do_nothing,)


def _do_nothing(*_: Any) -> None: ...


def _left(scope: Scope, module: nn.Module) -> Scope | None:
    """Where the program is once a module is left that is further out; here, if it was never entered."""
    return next((each.parent for each in scope.lineage() if each.module is module), scope)


def _is_called_directly(frame: FrameType | None) -> bool:
    """Whether the first frame outside of the module's own call is the program's."""
    while frame is not None and (is_own(frame.f_code.co_filename) or frame.f_code.co_filename == MODULE_FILE):
        frame = frame.f_back
    return frame is not None and not is_library(frame.f_code.co_filename)


def _raised_below(exception: Exception, call: FrameType) -> bool:
    """True if the exception comes out of this module call, and is not one that the caller is handling already."""
    return exception.__traceback__ is not None and exception.__traceback__.tb_frame is call


def _constructor(module: nn.Module) -> FrameType | None:
    """The frame that builds the module: the first one outside the module's own `__init__` methods."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is module:
        frame = frame.f_back
    return frame
