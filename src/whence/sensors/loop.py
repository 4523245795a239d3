"""Sensor for the rest of the training loop.

It sees calls that clear or clip gradients, step schedulers, switch modes, and save or load weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import get_ident
from types import GeneratorType
from typing import Any, Protocol

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingWarmRestarts,
    LRScheduler,
    ReduceLROnPlateau,
    SequentialLR,
)

from whence.ledgers.loop import Kind
from whence.sensors.sensor import Complaints, Sensor, hide_own_frames, passes_through
from whence.source.sites import Site, Stacks, caller_frame

SCHEDULERS = (
    LRScheduler,
    ReduceLROnPlateau,
    SequentialLR,
    ChainedScheduler,
    CosineAnnealingWarmRestarts,
)
CLIPS = ("clip_grad_norm_", "clip_grad_value_")


REFUSING = (Kind.LOAD, Kind.RESTORE, Kind.SCHEDULE)
"""These raise errors in their own words, without a failing torch call."""


class Listener(Complaints, Protocol):
    def loop_event(
        self, kind: Kind, stack: tuple[Site, ...], args: Any, kwargs: Any, result: Any
    ) -> None: ...
    def refused(self, exception: Exception) -> None: ...


class LoopSensor(Sensor):
    """Wrap the methods that training loops call.

    Each call passes through untouched and is reported after it succeeds.
    """

    name = "loop"
    sees = "checkpoints, schedulers and train/eval mode"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self._inside = False
        self._stacks = Stacks()

    def _attach(self) -> None:
        self._wrap(nn.Module, "train", self._reporting(Kind.MODE))
        self._wrap(nn.Module, "state_dict", self._reporting(Kind.STATE))
        self._wrap(nn.Module, "load_state_dict", self._reporting(Kind.LOAD))
        self._wrap(nn.Module, "_apply", self._announcing(Kind.CAST))
        self._wrap(Optimizer, "load_state_dict", self._reporting(Kind.RESTORE))
        self._wrap(GradScaler, "load_state_dict", self._reporting(Kind.RESTORE))
        self._wrap(torch, "load", self._reporting(Kind.READ))
        self._wrap(torch, "save", self._announcing(Kind.SAVE))
        self._wrap(GradScaler, "update", self._announcing(Kind.RESCALE))
        for scheduler in SCHEDULERS:
            self._wrap(scheduler, "step", self._reporting(Kind.SCHEDULE))
        # All other schedulers make a step while they are built.
        self._wrap(ReduceLROnPlateau, "__init__", self._reporting(Kind.SCHEDULE))

    @passes_through
    def _elsewhere(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Make a call in another thread, such as one that writes checkpoints.

        It is not nested in any call of the watched thread.
        """
        try:
            return original(*args, **kwargs)
        except BaseException as exception:
            hide_own_frames(exception)
            raise

    def _announcing(self, kind: Kind) -> Callable[[Any], Any]:
        """Report before the call, while the state that it changes is still intact."""

        def make(original: Any) -> Any:
            def announced(*args: Any, **kwargs: Any) -> Any:
                if get_ident() != self._thread:
                    return self._elsewhere(original, args, kwargs)
                outermost, self._inside = not self._inside, True
                if outermost:
                    stack = self._stacks.of(caller_frame())
                    self._guarded(self.listener.loop_event, kind, stack, args, kwargs, None)
                try:
                    return original(*args, **kwargs)
                except BaseException as exception:
                    hide_own_frames(exception)
                    raise
                finally:
                    self._inside = not outermost

            return announced

        return make

    def _reporting(self, kind: Kind) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            def reported(*args: Any, **kwargs: Any) -> Any:
                if get_ident() != self._thread:
                    return self._elsewhere(original, args, kwargs)
                outermost, self._inside = not self._inside, True
                try:
                    result = original(*args, **kwargs)
                except BaseException as exception:
                    if outermost and kind in REFUSING and isinstance(exception, Exception):
                        self._guarded(self.listener.refused, exception)
                    hide_own_frames(exception)
                    raise
                finally:
                    self._inside = not outermost
                if outermost and not torch.compiler.is_compiling():
                    stack = self._stacks.of(caller_frame())
                    self._guarded(self.listener.loop_event, kind, stack, args, kwargs, result)
                return result

            return reported

        return make


class OrderSensor(LoopSensor):
    """Sensor for changes to gradients between backward and step.

    It is on while the order of the loop is not known yet. It sees all changes or none: a partial
    record would be misleading.
    """

    name = "order"
    sees = "gradient clearing, clipping and scaling"

    def _attach(self) -> None:
        self._wrap(Optimizer, "zero_grad", self._reporting(Kind.CLEAR))
        self._wrap(nn.Module, "zero_grad", self._reporting(Kind.CLEAR))
        self._wrap(GradScaler, "scale", self._reporting(Kind.SCALE))
        self._wrap(GradScaler, "unscale_", self._reporting(Kind.UNSCALE))
        for name in CLIPS:
            self._wrap(torch.nn.utils, name, self._clipping)

    def _clipping(self, original: Any) -> Any:
        """Note the clipped parameters while they are consumed: they often come from an iterator."""

        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            seen: list[torch.Tensor] = []
            try:
                result = original(_noting(parameters, seen), *args, **kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise
            stack = self._stacks.of(caller_frame())
            self._guarded(
                self.listener.loop_event,
                Kind.CLIP,
                stack,
                (parameters, seen, *args),
                kwargs,
                result,
            )
            return result

        return clip


def _noting(given: Any, seen: list[torch.Tensor]) -> Any:
    """Return the same parameters as the same type.

    PyTorch treats an empty generator differently from an empty list.
    """

    def note(each: torch.Tensor) -> torch.Tensor:
        seen.append(each)
        return each

    if isinstance(given, GeneratorType):
        return (note(each) for each in given)
    if isinstance(given, Iterator):
        return map(note, given)
    seen += [given] if isinstance(given, torch.Tensor) else given
    return given
