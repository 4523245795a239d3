"""Values computed before training begins, by calls that no replay of a step reaches."""

from __future__ import annotations

import torch

from whence.tape.passes import changes_something
from whence.tape.readable import is_readable
from whence.tape.replay import trouble_in
from whence.tape.tape import Call, Tape, Value

MOST_KEPT = 8
MOST_BYTES = 1 << 26
LARGEST_READ = 1 << 26


class Preparation:
    """Keep the inputs of calls that produced NaN or Inf.

    The program may free these inputs and train on the results.
    """

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self._kept = self._bytes = 0
        self._before: dict[Value, torch.Tensor] = {}

    def begins(self, call: Call, tensors: list[torch.Tensor]) -> None:
        """Copy what a call is about to change in place."""
        self._before = {}
        if changes_something(call.name) and self._kept < MOST_KEPT and _size(tensors) <= MOST_BYTES:
            self._before = {
                value: each.detach().clone()
                for value, each in zip(call.operands, tensors, strict=True)
                if _can_be_bad(each)
            }

    def made(self, call: Call) -> None:
        before, self._before = self._before, {}
        if self._kept >= MOST_KEPT or not any(_is_bad(each.tensor) for each in call.outputs):
            return
        given = {each: before.get(each, each.tensor) for each in call.operands}
        tensors = [each for each in given.values() if each is not None]
        size = _size(tensors)
        if (
            len(tensors) == len(given)
            and all(map(is_readable, tensors))
            and not any(map(trouble_in, tensors))
            and self._bytes + size <= MOST_BYTES
        ):
            self.tape.copies |= {
                value: each.detach().clone() for value, each in given.items() if each is not None
            }
            self._bytes += size
            self._kept += 1


def _size(tensors: list[torch.Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def _can_be_bad(tensor: torch.Tensor) -> bool:
    return (
        is_readable(tensor)
        and tensor.is_floating_point()
        and tensor.layout is torch.strided
        and tensor.numel() > 0
    )


def _is_bad(tensor: torch.Tensor | None) -> bool:
    """Return whether a tensor has NaN or Inf.

    The sum is cheap and is checked first: it is not finite if an element is not.
    """
    if tensor is None or not _can_be_bad(tensor) or tensor.numel() > LARGEST_READ:
        return False
    return not bool(torch.isfinite(tensor.detach().sum())) and bool(trouble_in(tensor))
