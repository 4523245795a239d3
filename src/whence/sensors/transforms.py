"""Sensor for `torch.func`: gradients and batched functions, within which tensors have no values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import torch

from whence.sensors.sensor import Complaints, Sensor, hide_own_frames, passes_through
from whence.tape.transform import Transform
from whence.torch_internals import apis, are_transforms_active, eager_transforms

PLACES = ((eager_transforms, "grad_and_value_impl"), (apis, "vmap_impl"))
"""The implementations behind `torch.func.grad` and its relatives, however they were imported."""


class Listener(Complaints, Protocol):
    def transform_began(self, transform: Transform) -> None: ...
    def transform_ended(self, transform: Transform, result: Any) -> None: ...


class TransformSensor(Sensor):
    name = "transforms"
    sees = "torch.func transforms"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self._running: Transform | None = None

    def _attach(self) -> None:
        for owner, name in PLACES:
            if name in vars(owner):
                self._wrap(owner, name, partial(self._watched, name))

    def _watched(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def transform(*args: Any, **kwargs: Any) -> Any:
            try:
                return self._run(name, original, args, kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise

        return transform

    @passes_through
    def _run(self, name: str, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        gradients = name == PLACES[0][1]
        within = self._running is not None or are_transforms_active()
        if within or torch.compiler.is_compiling():
            if self._running is not None:
                self._running.gradients = self._running.gradients or gradients
            try:
                return original(*args, **kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise
        now = self._running = Transform(name, args, kwargs, torch.get_rng_state(), gradients)
        self._guarded(self.listener.transform_began, now)
        try:
            result = original(*args, **kwargs)
        except BaseException as exception:
            hide_own_frames(exception)
            raise
        finally:
            self._running = None
        self._guarded(self.listener.transform_ended, now, result)
        return result
