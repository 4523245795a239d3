"""A causal mask that leaves later positions visible: open some positions too far, or inverted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from whence.ledgers.study import Study
from whence.tape.tape import Call, Value

FEW_CALLS = 6
"""Calls between scores and their softmax: scaling, a bias, the mask."""
MOST_HOPS = 20


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask that leaves later positions visible: the call to report, and by how many positions."""

    call: Call
    by: int
    """0 if the mask itself is causal, but inverted."""


def leaking_mask(study: Study, attending: Call, length: int) -> Mask | None:
    """The causal mask that an attention call over `length` positions uses, if it leaks."""
    for user, mask in _masks(attending, length):
        by = _open_by(study.content(mask))
        if by is not None:
            return Mask(_first(study, mask) if by and mask.call is not None else user, by)
    return None


def _masks(attending: Call, length: int) -> Iterator[tuple[Call, Value]]:
    """The masks of an attention call: square operands that do not require grad."""
    pending = [attending]
    for _ in range(FEW_CALLS):
        if not pending:
            break
        call = pending.pop(0)
        trained = [value for value in call.operands if value.requires_grad]
        for value in call.operands:
            is_square = value.shape[-2:] == (length, length)
            if not value.requires_grad and is_square:
                yield call, value
            elif (
                value.requires_grad and value.call is not None and (is_square or len(trained) == 1)
            ):
                pending.append(value.call)


def _open_by(mask: torch.Tensor | None) -> int | None:
    """How many later positions a two-valued mask leaves open; None if it is not causal.

    The end of the first row is masked, and the start of the last row is open.
    """
    if (
        mask is None
        or mask.dim() < 2
        or mask.is_meta
        or mask.shape[-2] != mask.shape[-1]
        or mask.shape[-1] < 3
    ):
        return None
    square = mask.detach().reshape(-1, *mask.shape[-2:])[0]
    closed, open_ = square == square[0, -1], square == square[-1, 0]
    if bool((closed == open_).any()):
        return None
    columns = torch.arange(len(square), device=square.device)
    ahead = (columns.unsqueeze(0) - columns.unsqueeze(1)).masked_fill(closed, 0)
    return max(0, int(ahead.max()))


def _first(study: Study, mask: Value) -> Call:
    """Back to the call that first produced a mask that is open too far."""
    assert mask.call is not None
    call = mask.call
    for _ in range(MOST_HOPS):
        earlier = (
            each for each in call.operands if each.call is not None and not each.call.forgotten
        )
        before = next((each.call for each in earlier if _open_by(study.content(each))), None)
        if before is None:
            break
        call = before
    return call
