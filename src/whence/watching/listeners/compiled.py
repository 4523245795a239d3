"""The compile listener: turns off everything that Dynamo would trace while compiled code runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from whence.source.sites import user_stack
from whence.tape.tape import Call, CompiledRegion, flatten
from whence.watching.listeners.listener import Listener
from whence.watching.listeners.modules import ModuleListener

if TYPE_CHECKING:
    from whence.watching.session import Session


class CompileListener(Listener):
    def __init__(self, session: Session, modules: ModuleListener) -> None:
        super().__init__(session)
        self._modules = modules

    def region_began(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        session = self.session
        hooks, calls = session.module_sensor.on, session.calls.on
        call = None
        if calls:
            with session.looking():
                call = self._put_on_tape(target, args, kwargs)
        if isinstance(target, nn.Module) and session.scope is None and hooks:
            session.modules.note_root(target)
            if not self._modules.enters_as_ever(target, args):
                self._modules.module_entered(target, args, outermost=True)
            calls = calls or session.calls.on
        session.module_sensor.stop()
        session.calls.stop()
        # A compiled function may be a whole step, including zero_grad; a compiled model is not.
        is_model = isinstance(target, nn.Module)
        of_the_loop = () if is_model else (session.loop_sensor, session.order)
        taken_off = [each for each in (session.transforms, *of_the_loop) if each.on]
        for sensor in taken_off:
            sensor.stop()
        versions = {} if is_model else {each: _version(each) for each in session.optimizers.known()}
        optimizer = getattr(target, "__self__", None)
        if isinstance(optimizer, Optimizer):
            session.optimizers.listener.step_began(optimizer, False)
        return call, hooks, calls, taken_off, versions

    def tracing_began(self) -> list[Any]:
        """Turn off every sensor that a tracer would meet."""
        session = self.session
        session.call_listener.calls_missed()
        paused = [
            each for each in (session.calls, session.module_sensor, session.transforms) if each.on
        ]
        for sensor in paused:
            sensor.stop()
        return paused

    def tracing_ended(self, paused: list[Any]) -> None:
        for sensor in reversed(paused):
            sensor.start()

    def _put_on_tape(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Record a compiled region as one call, with the module's weights and its inputs."""
        session = self.session
        weights = (
            dict(nn.Module.named_parameters(target)) | dict(nn.Module.named_buffers(target))
            if isinstance(target, nn.Module)
            else {}
        )
        given = (weights, args, kwargs)
        frame = sys._getframe(2)
        now = session.call_listener.current(frame)
        call = session.tape.begin(CompiledRegion(target), given, {}, stack=user_stack(frame), **now)
        call.phase = "forward"
        session.passes.note_operands(
            call, [each for each in flatten(given) if isinstance(each, torch.Tensor)]
        )
        return call

    def region_ended(self, region: Any, result: Any) -> None:
        call, hooks, calls, taken_off, versions = region
        session = self.session
        for sensor in taken_off:
            sensor.start()
        if hooks:
            session.module_sensor.start()
        if calls:
            session.calls.start()
        if call is not None and result is not None:
            with session.looking():
                session.tape.finish(call, result, [])
        for optimizer, version in versions.items():
            if _version(optimizer) != version:
                session.optimizers.ran_compiled(optimizer, sys._getframe(2))


def _version(optimizer: Optimizer) -> int:
    """The version of the first weight with a gradient, or of the first weight."""
    weights = [each for group in optimizer.param_groups for each in group["params"]]
    first = next((each for each in weights if each.grad is not None), next(iter(weights), None))
    return first._version if first is not None else 0
