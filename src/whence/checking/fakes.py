"""Passes without data, on fake tensors: shapes and types, but no memory and no values."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from whence.checking.clones import Clone, clone
from whence.checking.structure import mapped, real_tensors
from whence.checking.subject import Subject
from whence.torch_internals import FAKE_TENSOR_LOGGER, fake_tensor_mode

Shapes = list[tuple[int, ...]]
Resize = Callable[[torch.Tensor], tuple[int, ...]]


class Fakes:
    """A copy of the model with fake weights. `works` says whether the given batch runs on it."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._mode = fake_tensor_mode()
        self._made = subject.fresh()
        roots = [
            each for each in (self._made.model, self._made.loss_fn) if isinstance(each, nn.Module)
        ]
        # Never copy fakes: torch 2.13 crashes when copies of fakes are freed.
        self._stand_ins = {
            id(each): self._mode.from_tensor(each)
            for root in roots
            for each in (*root.parameters(), *root.buffers())
        }
        self.works = True
        self.reference: Shapes = []
        try:
            self.reference = self.run(subject.source.batch)
        except Exception:
            # An operation that reads values, or has no fake implementation.
            self.works = False

    def run(self, batch: Any, resize: Resize | None = None) -> Shapes:
        """Return the output shapes, with the shapes of batch tensors changed by `resize`."""
        made = clone(self._made.model, self._made.loss_fn, None, self._stand_ins)
        with self._mode, _quietly():
            faked = mapped(batch, lambda leaf: self._faked(leaf, resize))
            done = self._subject.run(Clone(made.model, made.loss_fn, faked))
            return shapes_of([call.output for call in done.calls])

    def _faked(self, leaf: Any, resize: Resize | None) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        fake = self._mode.from_tensor(leaf)
        return (
            fake.new_empty(resize(leaf))
            if resize is not None and resize(leaf) != tuple(leaf.shape)
            else fake
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence torch's log of each operation that rejects fakes."""
    logger = logging.getLogger(FAKE_TENSOR_LOGGER)
    was, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was


def shapes_of(outputs: Any) -> Shapes:
    return [tuple(map(int, each.shape)) for each in real_tensors(outputs)]
