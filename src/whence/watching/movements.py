"""Weights that a step changes although frozen, or fails to change for lack of precision."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

from whence.ledgers.facts import all_weights_of
from whence.ledgers.loop import Kind, LoopLedger, OptimizerEntry
from whence.tape.readable import is_readable
from whence.tape.tape import Call, Tape
from whence.watching.updates import kept_in_float32

LOW = (torch.bfloat16, torch.float16)
LOOKS_AT_LOW = 12
MOST_COPIED = 16 * 2**20


class Movements:
    """Records both in the loop's ledger."""

    def __init__(
        self, loop: LoopLedger, tape: Tape, name_of: Callable[[torch.Tensor], str]
    ) -> None:
        self._loop = loop
        self._tape = tape
        self._name_of = name_of
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []

    def step_began(self, optimizer: Optimizer, entry: OptimizerEntry) -> None:
        weights = [
            each
            for each in all_weights_of(optimizer)
            if each.grad is not None and is_readable(each)
        ]
        frozen = [each for each in weights if not each.requires_grad]
        low = [each for each in weights if each.dtype in LOW and is_readable(each.grad)]
        low = (
            low
            if entry.steps < LOOKS_AT_LOW and sum(each.numel() for each in low) < MOST_COPIED
            else []
        )
        self._before = [(each, each.detach().clone()) for each in (*frozen, *low)]

    def step_ended(self, optimizer: Optimizer, step: int) -> None:
        before, self._before = self._before, []
        moved = [
            each for each, copy in before if not each.requires_grad and not torch.equal(each, copy)
        ]
        low = [
            (each, copy) for each, copy in before if each.requires_grad and each.grad is not None
        ]
        if moved:
            freezing = [_freezing(self._tape, each) for each in moved]
            sites = [call.stack for call in freezing if call is not None]
            names = tuple(map(self._name_of, moved))
            self._loop.note(Kind.MOVED, step, sites[0] if sites else (), optimizer, names=names)
        if low:
            self._loop.note(Kind.LOST, step, (), optimizer, **_lost(optimizer, low))


def _freezing(tape: Tape, weight: torch.Tensor) -> Call | None:
    """The call that disabled a weight's gradient."""
    for call in reversed(tape.calls):
        if call.name in ("requires_grad_", "requires_grad.__set__") and any(
            each.tensor is weight for each in call.operands
        ):
            return call
    return None


def _lost(optimizer: Optimizer, low: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, Any]:
    """How many low-precision elements a step should change, and how many it left unchanged."""
    aimed = sum(int(each.grad.count_nonzero()) for each, _ in low if each.grad is not None)
    kept = [
        int(((each == before) & (each.grad != 0)).sum()) if each.grad is not None else 0
        for each, before in low
    ]
    worst = low[kept.index(max(kept))][0]
    return {
        "aimed": aimed,
        "kept": sum(kept),
        "in_float32": kept_in_float32(optimizer) if sum(kept) > 0.5 * aimed else None,
        "dtype": worst.dtype,
        "worst": weakref.ref(worst),
    }
