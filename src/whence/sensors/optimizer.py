"""Sensor for optimizer steps.

It counts steps, and is the last point at which gradients can be inspected before their use.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Sized
from types import FrameType, GeneratorType
from typing import Any, Protocol

from torch.compiler import is_dynamo_compiling
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from whence.sensors.gate import is_closed
from whence.sensors.sensor import Complaints, Sensor, hide_own_frames, passes_through
from whence.source.sites import Site, caller_frame, user_stack, variable
from whence.weak_table import WeakTable


class Listener(Complaints, Protocol):
    def optimizer_built(self, optimizer: Optimizer, stack: tuple[Site, ...]) -> None: ...
    def optimizer_refused(self, exception: Exception, used_up: bool) -> None: ...
    def step_began(self, optimizer: Optimizer, evaluates: bool) -> None: ...
    def evaluation_began(self, optimizer: Optimizer) -> None: ...
    def evaluation_ended(self, optimizer: Optimizer) -> None: ...
    def step_ended(self, optimizer: Optimizer, steps: int, frame: FrameType | None) -> None: ...
    def step_unseen(self, steps: int) -> None: ...


class OptimizerSensor(Sensor):
    name = "optimizer"
    sees = "optimizer steps"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self._counts: WeakTable[Optimizer, list[int]] = WeakTable()
        self._last: tuple[weakref.ref[Optimizer] | None, list[int]] = None, [0]
        self._built: WeakTable[Optimizer, tuple[Site, ...]] = WeakTable()
        self._alive: WeakTable[Optimizer, None] = WeakTable()
        """Optimizers that were built or have stepped: all are counted in every step."""
        self.steps = 0

    def built_at(self, optimizer: Optimizer) -> tuple[Site, ...]:
        return self._built.get(optimizer, ())

    @property
    def count(self) -> int:
        return len(self._alive)

    def known(self) -> list[Optimizer]:
        return self._built.things()

    def _attach(self) -> None:
        self._wrap(Optimizer, "__init__", self._wrap_init)
        self._undo.append(register_optimizer_step_pre_hook(self._before).remove)
        self._undo.append(register_optimizer_step_post_hook(self._after).remove)

    def _wrap_init(self, original: Any) -> Any:
        def __init__(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            used_up = _is_at_end(args[0] if args else kwargs.get("params"))
            try:
                original(optimizer, *args, **kwargs)
            except BaseException as exception:
                if isinstance(exception, Exception):
                    self._guarded(self.listener.optimizer_refused, exception, used_up)
                hide_own_frames(exception)
                raise
            builder: Any = caller_frame()
            while builder is not None and builder.f_code.co_name == "__init__":
                if variable(builder, "self") is not optimizer:
                    break
                builder = builder.f_back
            self._guarded(lambda: self._note_built(optimizer, user_stack(builder)))

        return __init__

    def _note_built(self, optimizer: Optimizer, stack: tuple[Site, ...]) -> None:
        self._built[optimizer] = stack
        self._alive[optimizer] = None
        self.listener.optimizer_built(optimizer, stack)

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        """Wrap a closure so that its start and end are reported; nothing else is changed."""
        if is_dynamo_compiling():
            # Anything done here would become part of the compiled program.
            return None
        if len(args) == 1 and not kwargs:
            routine = self.routine
            if (
                routine is None
                or not routine.on
                or not self._goes_on(routine.step_began, optimizer, None)
            ):
                self._guarded(self.listener.step_began, optimizer, False)
            return None
        arguments = list(args[1:]) if args and args[0] is optimizer else list(args)
        closure = arguments[0] if arguments else kwargs.get("closure")
        self._guarded(self.listener.step_began, optimizer, callable(closure))
        if not callable(closure) or self.failed:
            return None
        wrapped = self._evaluating(optimizer, closure)
        if arguments:
            return (*args[: len(args) - len(arguments)], wrapped, *arguments[1:]), kwargs
        return args, {**kwargs, "closure": wrapped}

    def _evaluating(self, optimizer: Optimizer, closure: Callable[[], Any]) -> Callable[[], Any]:
        @passes_through
        def evaluate() -> Any:
            self._guarded(self.listener.evaluation_began, optimizer)
            try:
                result = closure()
            except BaseException as exception:
                hide_own_frames(exception)
                raise
            self._guarded(lambda: self.listener.evaluation_ended(optimizer))
            return result

        return evaluate

    def ran_compiled(self, optimizer: Optimizer, frame: FrameType | None) -> None:
        """Count a step made within compiled code, which no sensor observes."""
        self._count(optimizer, frame)

    def _after(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if is_dynamo_compiling():
            return
        if not self._goes_on(self._count, optimizer, sys._getframe(1)) and is_closed():
            self._advance(optimizer)
            self.listener.step_unseen(self.steps)

    def _count(self, optimizer: Optimizer, frame: FrameType | None) -> bool:
        self._advance(optimizer)
        routine = self.routine
        if (
            routine is None
            or not routine.on
            or not routine.step_ended(optimizer, self.steps, frame)
        ):
            self.listener.step_ended(optimizer, self.steps, frame)
        return True

    def _advance(self, optimizer: Optimizer) -> None:
        """Count a step of the busiest optimizer: a GAN's two optimizers make one step together.

        An optimizer that is built later continues from the current count.
        """
        ref, count = self._last
        if ref is None or ref() is not optimizer:
            self._alive[optimizer] = None
            together = ref is not None and ref() is not None
            count = self._counts.setdefault(optimizer, [self.steps - together])
            self._last = weakref.ref(optimizer), count
        count[0] += 1
        if count[0] > self.steps:
            self.steps = count[0]


def _is_at_end(thing: Any, depth: int = 3) -> bool:
    """Return whether an iterator is exhausted, without advancing it.

    This is known for a generator that has returned, and for a filter or map over one.
    """
    if isinstance(thing, GeneratorType):
        return thing.gi_frame is None
    if (
        type(thing).__module__ not in ("builtins", "itertools")
        or not isinstance(thing, Iterator)
        or not depth
    ):
        return False
    within = [each for each in gc.get_referents(thing) if isinstance(each, Iterator)]
    if not within:
        # A list iterator releases its list at the end.
        return not any(isinstance(each, Sized) for each in gc.get_referents(thing))
    return any(_is_at_end(each, depth - 1) for each in within)
