"""Sensor for code compiled by torch.compile.

It keeps all other sensors out of compiled code, so that compiled code stays compiled.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import nn

from whence.sensors.sensor import Complaints, Sensor, hide_own_frames, passes_through
from whence.torch_internals import optimized_module_class


class Listener(Complaints, Protocol):
    def region_began(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def region_ended(self, region: Any, result: Any) -> None: ...
    def tracing_began(self) -> list[Any]: ...
    def tracing_ended(self, paused: list[Any]) -> None: ...


class CompileSensor(Sensor):
    """Wrap `torch.compile`.

    Hooks and modes that dynamo would trace or guard on are off while compiled code runs.
    """

    name = "compile"
    sees = "compiled code"

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.listener = listener
        self._inside = False

    def _attach(self) -> None:
        self._wrap(torch, "compile", self._wrap_compile)
        for name in ("trace", "trace_module"):
            self._wrap(torch.jit, name, self._wrap_tracer)
        compiled = optimized_module_class()
        if compiled is not None:
            self._watch_class(compiled)

    def _wrap_tracer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Hide our frames from a tracer, which names values after the variables in its frames."""

        def trace(*args: Any, **kwargs: Any) -> Any:
            if self._inside or not self.on:
                return original(*args, **kwargs)
            self._inside = True
            paused = self._guarded(self.listener.tracing_began)
            try:
                return original(*args, **kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise
            finally:
                self._inside = False
                if paused is not None:
                    self._guarded(self.listener.tracing_ended, paused)

        return trace

    def _watch_class(self, kind: type) -> None:
        if not getattr(vars(kind).get("__call__"), "__wrapped__", None):
            self._wrap(kind, "__call__", self._wrap_call)

    def _wrap_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
            result = original(model, *args, **kwargs)
            if isinstance(result, nn.Module):
                self._guarded(self._watch_class, type(result))
                return result
            return (
                self._watched(model, result) if model is not None and callable(result) else result
            )

        return compile

    def _watched(self, target: Any, compiled: Callable[..., Any]) -> Callable[..., Any]:
        @passes_through
        @functools.wraps(compiled)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return self._run(target, compiled, args, kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise

        return run

    def _wrap_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
            target = vars(module).get("_modules", {}).get("_orig_mod", module)
            try:
                return self._run(target, functools.partial(original, module), args, kwargs)
            except BaseException as exception:
                hide_own_frames(exception)
                raise

        return __call__

    @passes_through
    def _run(self, target: Any, compiled: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._inside or not self.on or torch.compiler.is_compiling():
            return compiled(*args, **kwargs)
        self._inside = True
        region: list[Any] = []
        self._guarded(
            lambda: region.append(self.listener.region_began(_plain(target), args, kwargs))
        )
        try:
            result = compiled(*args, **kwargs)
        except BaseException as exception:
            self._guarded(lambda: self.listener.region_ended(region[0], None))
            hide_own_frames(exception)
            raise
        finally:
            self._inside = False
        self._guarded(lambda: self.listener.region_ended(region[0], result))
        return result


def _plain(target: Any) -> Any:
    """Return the module behind `module.compile()`, which compiles its own method."""
    return (
        target.__self__
        if inspect.ismethod(target) and isinstance(target.__self__, nn.Module)
        else target
    )
