"""Sensor for modules: where each was built, which one is running, and which one raised.

Only the outermost module has a hook while it runs. Hooks on all modules would add a stack frame per
level, and would be traced with the model. The module that makes a call is found from the stack.
"""

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

from whence.sensors.detours import hide_hook
from whence.sensors.sensor import Complaints, Sensor, hide_own_frames
from whence.source.sites import Site, is_library, is_own, user_stack, variable, variables
from whence.tape.scopes import ModuleBook, Scope, parts_of, weights_within
from whence.torch_internals import (
    MODULE_CALL,
    global_forward_hooks,
    global_forward_pre_hooks,
    global_hooks,
)

# With a function mode on the stack these take another code path and return another result:
# nn.TransformerEncoder's inference fast path differs by 2.4 at padded positions.
FAST_PATHS = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)

MODULE_FILE = torch_module.__file__

OFTEN = 64
"""In programs without optimizer steps, how many module calls pass between two cost checks."""
MOST_USUAL = 16
MOST_SETSTATES = 4
"""Maximum number of classes that override nn.Module's __setstate__."""


class Listener(Complaints, Protocol):
    modules: ModuleBook
    scope: Scope | None

    def enters_as_ever(self, module: nn.Module, args: tuple[Any, ...]) -> bool: ...
    def module_entered(self, module: nn.Module, args: tuple[Any, ...]) -> None: ...
    def module_failed(
        self, module: nn.Module, args: tuple[Any, ...], exception: Exception
    ) -> None: ...
    def recording(self) -> bool: ...
    def entered_often(self) -> None: ...
    def pause_calls(self) -> bool: ...
    def resume_calls(self) -> None: ...


class ModuleSensor(Sensor):
    name = "modules"
    sees = "modules and the calls they make"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self._has_paused = False
        self._root: nn.Module | None = None
        self._root_frame = 0
        """The identity of the frame in which the outermost module's call runs."""
        self._within: dict[tuple[int, int], Scope] = {}
        """Modules within the outermost one that made calls, by identity and caller."""
        self._aside: tuple[nn.Module, OrderedDict[int, Any]] | None = None
        """The outermost module while only it has a hook, and its original hooks."""
        self._usual: dict[int, Scope] = {}
        """Scopes of modules that were outermost while nothing was recorded, by identity."""
        self._hooks: tuple[tuple[dict[int, Any], int, Any], ...] = ()
        self.calls = 0
        """Module calls since the last reset to 0."""

    def _attach(self) -> None:
        self._wrap(nn.Module, "__init__", self._wrap_init)
        self._wrap(nn.Module, "__setstate__", self._wrap_setstate)
        self._wrap(nn.Module, "register_parameter", self._wrap_register)
        before = torch_module.register_module_forward_pre_hook(self._before)
        after = torch_module.register_module_forward_hook(self._after, always_call=True)
        self._undo += [before.remove, after.remove, self._take_back]
        if global_forward_pre_hooks is not None and global_forward_hooks is not None:
            self._hooks = (
                (global_forward_pre_hooks, before.id, self._before),
                (global_forward_hooks, after.id, self._after),
            )

    # the module that makes a call

    def scope_at(self, frame: FrameType | None) -> Scope | None:
        """Return the scope of the module whose forward makes the call in a frame."""
        scope = self.listener.scope
        if scope is None:
            return None
        callers: list[nn.Module] = []
        while frame is not None and id(frame) != self._root_frame:
            if frame.f_code is MODULE_CALL and isinstance(
                called := variable(frame, "self"), nn.Module
            ):
                callers.append(called)
            frame = frame.f_back
        for module in reversed(callers) if frame is not None else ():
            scope = self._scope_within(module, scope)
        return scope

    def _scope_within(self, module: nn.Module, caller: Scope) -> Scope:
        key = id(module), id(caller)
        known = self._within.get(key)
        if known is None or known.ref() is not module:
            known = self._within[key] = self._scope_of(module, caller)
        return known

    def _scope_of(self, module: nn.Module, caller: Scope | None, **more: Any) -> Scope:
        modules = self.listener.modules
        stack = modules.built_at(module)
        built = stack[0] if stack and modules.times_built_inside(stack[0]) else None
        return Scope(
            weakref.ref(module), type(module).__name__, caller, module.training, built, **more
        )

    # where modules are built

    def _wrap_init(self, original: Any) -> Any:
        def __init__(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            try:
                original(module, *args, **kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
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
                hide_own_frames(exception)
                raise
            self._guarded(self._note_copy, module)

        return __setstate__

    def _note_copy(self, module: nn.Module) -> None:
        """Note a module copied by `copy.deepcopy`.

        The original is a local variable of the function that builds the copy.
        """
        frame = sys._getframe(2).f_back
        rebuilding = copy._reconstruct.__code__  # type: ignore[attr-defined]
        for _ in range(MOST_SETSTATES):
            if frame is None:
                return
            if frame.f_code is rebuilding and variable(frame, "y") is module:
                self.listener.modules.note_copy(module, variables(frame)["x"], user_stack(frame))
                return
            frame = frame.f_back

    def _wrap_register(self, original: Any) -> Any:
        def register_parameter(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            try:
                original(module, *args, **kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise
            self._guarded(
                self._note_registration, args[1] if len(args) > 1 else kwargs.get("param")
            )

        return register_parameter

    def _note_registration(self, tensor: Any) -> None:
        """Note a parameter that is added to a model after its construction."""
        stack = user_stack(sys._getframe(3))
        if isinstance(tensor, torch.Tensor) and stack and stack[0].function != "__init__":
            self.listener.modules.note_registration(tensor, stack)

    # the outermost module

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self.calls += 1
        if self._root is None:
            self._guarded(self._come_in, module, args, sys._getframe(1))

    def _come_in(self, module: nn.Module, args: tuple[Any, ...], frame: FrameType) -> None:
        listener, usual = self.listener, self._usual.get(id(module))
        self._root_frame = id(_call_of_module(frame))
        is_known = usual is not None and usual.ref() is module and usual.training is module.training
        if is_known and listener.scope is None and listener.enters_as_ever(module, args):
            self._root, listener.scope = module, usual
        else:
            self._root = module
            self._enter(module, args, frame)
        if self.on and self._hooks:
            self._step_aside(module)

    def _enter(self, module: nn.Module, args: tuple[Any, ...], frame: FrameType) -> None:
        """Enter the outermost module; its inputs may start a recording."""
        listener = self.listener
        listener.modules.note_root(module)
        self._within.clear()
        called_from = user_stack(frame) if listener.recording() else ()
        direct = bool(called_from) and _is_called_directly(frame)
        scope = listener.scope = self._scope_of(
            module, None, called_from=called_from, is_called_directly=direct
        )
        if not called_from:
            if len(self._usual) >= MOST_USUAL:
                self._usual.clear()
            self._usual[id(module)] = scope
        listener.module_entered(module, args)
        if listener.recording() and _takes_fast_path(module):
            self._has_paused = listener.pause_calls()

    def _step_aside(self, module: nn.Module) -> None:
        """Move the hook from all modules to the outermost one while that runs.

        With a global hook, every module takes the slow path through its call. Modules within the
        outermost one need no hook, so the global hooks are off meanwhile.
        """
        state = vars(module)
        own, always = state.get("_forward_hooks"), state.get("_forward_hooks_always_called")
        if own is None or always is None:
            return
        number = self._hooks[1][1]
        # PyTorch iterates over these hooks while ours removes itself, so it must find them in
        # another dict.
        state["_forward_hooks"] = OrderedDict(own)
        state["_forward_hooks"][number] = _Exit(self._after)
        always[number] = True
        self._aside = module, own
        for hooks, key, _ in self._hooks:
            hooks.pop(key, None)

    def _take_back(self) -> None:
        """Restore the outermost module's hooks."""
        if self._aside is None:
            return
        (module, own), self._aside = self._aside, None
        state, number = vars(module), self._hooks[1][1]
        used, state["_forward_hooks"] = state["_forward_hooks"], own
        if len(used) != len(own) + 1:
            # The program added or removed hooks while the module ran.
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
        if module is self._root:
            self._guarded(self._go_out, module, args, sys._getframe(1))

    def _go_out(self, module: nn.Module, args: tuple[Any, ...], frame: FrameType) -> None:
        self._root = None
        if self._aside is not None:
            self._come_back()
        listener, exception = self.listener, sys.exception()
        raised = (
            exception
            if isinstance(exception, Exception) and _raised_below(exception, frame)
            else None
        )
        try:
            if raised is not None:
                listener.module_failed(module, args, raised)
        finally:
            listener.scope = None
            if self._has_paused:
                self._has_paused = False
                listener.resume_calls()
            if self.calls >= OFTEN and not listener.recording():
                listener.entered_often()
        if raised is not None and not self._has_other_hooks(module):
            hide_hook(raised, frame.f_back)

    def _has_other_hooks(self, module: nn.Module) -> bool:
        """Return whether PyTorch runs hooks in a call of this module even without ours."""
        state = vars(module)
        own = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
        others = sum(map(len, global_hooks())) - len(self._hooks)
        return others > 0 or any(state.get(each) for each in own)


class _Exit(functools.partial[None]):
    """The hook of the outermost module.

    A copy of the module made while it runs gets a hook that does nothing.
    """

    def __deepcopy__(self, _memo: Any) -> _Exit:
        return _Exit(_do_nothing)

    def __reduce__(self) -> tuple[type[_Exit], tuple[Any]]:
        return _Exit, (_do_nothing,)


def _do_nothing(*_: Any) -> None: ...


def _takes_fast_path(module: nn.Module) -> bool:
    """Return whether a module has a layer that may take its inference fast path now."""
    layers = (
        each for each in parts_of(module) if isinstance(each, FAST_PATHS) and not each.training
    )
    return any(
        not torch.is_grad_enabled()
        or not any(weight.requires_grad for weight in weights_within(each))
        for each in layers
    )


def _call_of_module(frame: FrameType) -> FrameType | None:
    """Return the frame of the module call that a hook runs in.

    PyTorch calls hooks from a nested function.
    """
    while frame.f_code is not MODULE_CALL and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _is_called_directly(frame: FrameType | None) -> bool:
    """Return whether the first frame outside the module's own call belongs to the program."""
    while frame is not None and (
        is_own(frame.f_code.co_filename) or frame.f_code.co_filename == MODULE_FILE
    ):
        frame = frame.f_back
    return frame is not None and not is_library(frame.f_code.co_filename)


def _raised_below(exception: Exception, call: FrameType) -> bool:
    """Return whether the exception was raised in this module call.

    Otherwise it is one that the caller is already handling.
    """
    return exception.__traceback__ is not None and exception.__traceback__.tb_frame is call


def _constructor(module: nn.Module) -> FrameType | None:
    """Return the frame that builds the module: the first outside its own `__init__` methods."""
    frame: FrameType | None = sys._getframe(2)
    while (
        frame is not None
        and frame.f_code.co_name == "__init__"
        and variable(frame, "self") is module
    ):
        frame = frame.f_back
    return frame
