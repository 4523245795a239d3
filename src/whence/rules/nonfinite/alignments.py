"""Why the CTC loss is infinite: a text that is longer than what it is to be read from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from whence.tape.tape import Call, Value


def too_long(call: Call, tensors: Sequence[torch.Tensor]) -> tuple[int, int, int, int] | None:
    """The first sample of a ctc_loss that has more labels than steps: which it is, its labels, those that stand beside their like, its steps.

    Between two labels that are the same a blank has to be read, so that each such pair takes a step more.
    """
    known = dict(zip(call.operands, tensors, strict=False))
    names = ("log_probs", "targets", "input_lengths", "target_lengths")
    given = [
        call.args[at] if len(call.args) > at else call.kwargs.get(name)
        for at, name in enumerate(names)
    ]
    _, targets, steps, lengths = (
        known.get(each, each) if isinstance(each, Value) else each for each in given
    )
    if not isinstance(targets, torch.Tensor):
        return None
    begins = 0
    for sample, (most, length) in enumerate(zip(_numbers(steps), _numbers(lengths), strict=False)):
        labels = (
            targets[begins : begins + length] if targets.dim() == 1 else targets[sample, :length]
        )
        begins += length
        pairs = int((labels[1:] == labels[:-1]).sum())
        if length + pairs > most:
            return sample, length, pairs, most
    return None


def _numbers(lengths: Any) -> list[int]:
    if isinstance(lengths, torch.Tensor):
        return [int(each) for each in lengths.reshape(-1).tolist()]
    return (
        [each for each in lengths if isinstance(each, int)]
        if isinstance(lengths, list | tuple)
        else []
    )
