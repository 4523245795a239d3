"""Restore the subject bit for bit: weights, statistics, gradients, modes, batch, random states."""

from __future__ import annotations

import io
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import torch
from torch import nn

from whence.checking.clones import is_lazy
from whence.checking.structure import tensors_in
from whence.devices import random_state, restore_random_state
from whence.tape.native import running_everything
from whence.tape.replay import leaving_no_trace, same_bits


@contextmanager
def untouched(model: nn.Module, loss_fn: Any, batch: Any) -> Iterator[None]:
    """Restore the originals.

    Everything runs on copies, but user code may still reach an original.
    """
    kept = Kept(model, loss_fn, batch)
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        # Attention's inference path rounds differently, which would make train and eval
        # incomparable.
        torch.backends.mha.set_fastpath_enabled(False)
        silent, free = redirect_stdout(io.StringIO()), running_everything()
        with (
            random_states_kept(),
            _not_watched(),
            torch.inference_mode(False),
            leaving_no_trace(),
            silent,
            free,
        ):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        kept.restore()


@contextmanager
def random_states_kept() -> Iterator[None]:
    numpy = sys.modules.get("numpy")
    python = random.getstate()
    arrays = numpy.random.get_state() if numpy is not None else None
    tensors = random_state()
    try:
        yield
    finally:
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(arrays)
        restore_random_state(tensors)


def seed(number: int) -> None:
    """Seed all random streams."""
    random.seed(number)
    torch.manual_seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number)


@contextmanager
def _not_watched() -> Iterator[None]:
    """Hide passes on copies from a watch that is active in this process."""
    sessions = sys.modules.get("whence.watching.session")
    session = sessions.running() if sessions is not None else None
    sensors = (
        [each for each in (*session.sensors, session.calls) if each.on]
        if session is not None
        else []
    )
    for sensor in sensors:
        sensor.stop()
    try:
        yield
    finally:
        for sensor in sensors:
            sensor.start()


class Kept:
    """Save everything that a check must not change, and restore it."""

    def __init__(self, model: nn.Module, loss_fn: Any, batch: Any) -> None:
        roots = [each for each in (model, loss_fn) if isinstance(each, nn.Module)]
        modules = [module for root in roots for module in root.modules()]
        weights = [
            each for module in modules for each in module._parameters.values() if each is not None
        ]
        buffers = [
            each for module in modules for each in module._buffers.values() if each is not None
        ]
        tensors = [*weights, *buffers, *(each for _, each in tensors_in(batch))]
        unique = {id(each): each for each in tensors if not is_lazy(each) and not each.is_meta}
        self._modes = [(module, module.training) for module in modules]
        self._contents = [(each, each.detach().clone()) for each in unique.values()]
        self._gradients = [
            (each, each.grad, each.grad.detach().clone() if each.grad is not None else None)
            for each in unique.values()
            if each.is_leaf
        ]

    def restore(self) -> None:
        for module, mode in self._modes:
            if module.training != mode:
                module.training = mode
        with torch.no_grad():
            for tensor, content in self._contents:
                _put_back(tensor, content)
            for tensor, gradient, before in self._gradients:
                if tensor.grad is not gradient:
                    tensor.grad = gradient
                if gradient is not None and before is not None:
                    _put_back(gradient, before)


def _put_back(tensor: torch.Tensor, content: torch.Tensor) -> None:
    if tensor.layout is not torch.strided:
        return
    if not same_bits(tensor, content):
        tensor.data.copy_(content)
