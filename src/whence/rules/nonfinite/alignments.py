"""Why a CTC loss is infinite: a sample has more labels than input steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from whence.tape.tape import Call, Value


def too_long(call: Call, tensors: Sequence[torch.Tensor]) -> tuple[int, int, int, int] | None:
    """Find the first `ctc_loss` sample whose labels do not fit into its input steps.

    Return its position, label count, number of equal neighbours, and step count. CTC needs a
    blank between two equal labels, so each such pair takes one more step.
    """
    known = dict(zip(call.operands, tensors, strict=False))
    names = ("log_probs", "targets", "input_lengths", "target_lengths")
    arguments = [
        call.args[at] if len(call.args) > at else call.kwargs.get(name)
        for at, name in enumerate(names)
    ]
    _, targets, steps, lengths = (
        known.get(each, each) if isinstance(each, Value) else each for each in arguments
    )
    if not isinstance(targets, torch.Tensor):
        return None
    begins = 0
    for sample, (most, length) in enumerate(zip(_lengths(steps), _lengths(lengths), strict=False)):
        labels = (
            targets[begins : begins + length] if targets.dim() == 1 else targets[sample, :length]
        )
        begins += length
        pairs = int((labels[1:] == labels[:-1]).sum())
        if length + pairs > most:
            return sample, length, pairs, most
    return None


def _lengths(lengths: Any) -> list[int]:
    if isinstance(lengths, torch.Tensor):
        return [int(each) for each in lengths.reshape(-1).tolist()]
    return (
        [each for each in lengths if isinstance(each, int)]
        if isinstance(lengths, list | tuple)
        else []
    )
