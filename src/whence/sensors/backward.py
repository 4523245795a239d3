"""Sensor for gradient computations.

It sees the losses when backward begins, and the results of `torch.autograd.grad`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

import torch
from torch.compiler import is_dynamo_compiling

from whence.sensors.sensor import Complaints, Sensor, hide_own_frames, passes_through
from whence.tape.readable import PLAIN
from whence.tape.tape import flatten


class Listener(Complaints, Protocol):
    def backward_began(
        self, losses: list[torch.Tensor], keeps_graph: bool, frame: FrameType | None
    ) -> bool: ...
    def graph_kept(self) -> None: ...
    def backward_failed(self, func: Any, args: Any, kwargs: Any, exception: Exception) -> None: ...
    def backward_ended(
        self, inputs: list[torch.Tensor], gradients: list[torch.Tensor], raised: bool
    ) -> None: ...


class BackwardSensor(Sensor):
    """Wrap `Tensor.backward`, `autograd.backward` and `autograd.grad`, which call each other."""

    name = "backward"
    sees = "backward passes"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self._running = False

    def _attach(self) -> None:
        self._wrap(torch.Tensor, "backward", self._watched)
        self._wrap(torch.autograd, "backward", self._watched)
        self._wrap(torch.autograd, "grad", self._watched_grad)

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            try:
                if self._running:
                    return original(*args, **kwargs)
                keeps_graph = (
                    _given(args, kwargs, 2, "retain_graph") if kwargs or len(args) > 1 else None
                )
                return self._run(original, args, kwargs, (), keeps_graph)
            except BaseException as exception:
                hide_own_frames(exception)
                raise

        return backward

    def _watched_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def grad(*args: Any, **kwargs: Any) -> Any:
            # With create_graph the gradient is part of a later loss, not of an update.
            differentiable = _given(args, kwargs, 4, "create_graph")
            keeps_graph = _given(args, kwargs, 3, "retain_graph")
            inputs = (
                () if differentiable else args[1] if len(args) > 1 else kwargs.get("inputs", ())
            )
            try:
                return self._run(
                    original, args, kwargs, inputs, keeps_graph, final=not differentiable
                )
            except BaseException as exception:
                hide_own_frames(exception)
                raise

        return grad

    @passes_through
    def _run(
        self,
        original: Callable[..., Any],
        args: Any,
        kwargs: Any,
        inputs: Any,
        keeps_graph: Any,
        final: bool = True,
    ) -> Any:
        if self._running or not final or is_dynamo_compiling():
            try:
                result = original(*args, **kwargs)
            except BaseException as exception:
                if (
                    isinstance(exception, Exception)
                    and not self._running
                    and not is_dynamo_compiling()
                ):
                    self._guarded(self.listener.backward_failed, original, args, kwargs, exception)
                hide_own_frames(exception)
                raise
            if not self._running and not is_dynamo_compiling():
                self._guarded(self.listener.graph_kept)
            return result
        self._running = True
        given = args[0] if args else kwargs.get("tensors", kwargs.get("outputs", ()))
        routine = self.routine
        result = None
        raised = listens = True
        try:
            if (
                routine is not None
                and routine.on
                and not keeps_graph
                and type(given) in PLAIN
                and self._goes_on(routine.backward_began, given, sys._getframe(1))
            ):
                listens = routine.hears_end
            else:
                # The values of tensor subclasses are not read: that may run the program's code.
                losses = [each for each in _tensors(given) if type(each) in PLAIN]
                listens = bool(
                    self._guarded(
                        self.listener.backward_began, losses, bool(keeps_graph), sys._getframe(1)
                    )
                )
            result = original(*args, **kwargs)
            raised = False
        except BaseException as exception:
            if isinstance(exception, Exception):
                self._guarded(self.listener.backward_failed, original, args, kwargs, exception)
            hide_own_frames(exception)
            raise
        finally:
            self._running = False
            if raised or listens or inputs:
                self._guarded(
                    self.listener.backward_ended, _tensors(inputs), _tensors(result), raised
                )
        return result


def _given(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str) -> Any:
    return kwargs.get(name, args[position] if len(args) > position else None)


def _tensors(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    if not tree:
        return []
    return [
        each
        for each in flatten(tuple(tree) if not isinstance(tree, dict | None) else ())
        if isinstance(each, torch.Tensor)
    ]
