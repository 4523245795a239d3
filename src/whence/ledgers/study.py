"""A recorded pass just before its gradients are used, for mistakes that raise nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from whence.devices import has_room
from whence.ledgers.loop import Kind, LoopLedger, OptimizerEntry
from whence.source.sites import Site
from whence.tape.passes import Pass
from whence.tape.replay import Plan, Run, Unreplayable, plan_for, replay
from whence.tape.scene import Scene
from whence.tape.slices import is_final, may_draw, needed_calls
from whence.tape.tape import Call, Value

A_FEW = 8
MOST_BYTES = 256 * 2**20
"""The limit for the results of a pass: larger passes are not replayed."""
SMALL = 16 * 2**20
MOST_PIECES = 3
"""This many values are computed one by one; then a small pass is replayed whole and kept."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The operand of a backward call, and its value."""

    call: Call
    value: Value
    number: float | None


@dataclass(eq=False, slots=True, kw_only=True)
class Study(Scene):
    """The input of the rules for silent mistakes.

    Weights and gradients are as the update finds them.
    """

    now: Pass
    step: int
    stack: tuple[Site, ...]
    """Where the update is made."""
    calls: tuple[Call, ...]
    losses: tuple[Loss, ...]
    course: Sequence[float]
    """The losses of the run so far."""
    leaf_losses: list[tuple[Value, tuple[Site, ...]]]
    """Operands of backward that have no graph."""
    optimizer: Optimizer
    entry: OptimizerEntry
    built: Sequence[OptimizerEntry]
    loop: LoopLedger
    told: set[str]
    """Rules that have reported in this run."""
    asked: set[object]
    """Questions that need a child process and were answered in an earlier study."""
    given: Mapping[int, torch.Tensor] = field(default_factory=dict)
    """Gradients returned by `autograd.grad` rather than stored in `.grad`, by weight identity."""
    _paths: dict[int, tuple[Call, ...]] = field(default_factory=dict)
    _runs: list[Run | None] = field(default_factory=list)
    _contents: dict[Value, torch.Tensor] = field(default_factory=dict)
    _plan: Plan | None = None
    _pieces: int = 0

    def gradient_of(self, weight: torch.Tensor) -> torch.Tensor | None:
        return weight.grad if weight.grad is not None else self.given.get(id(weight))

    def path(self, value: Value) -> tuple[Call, ...]:
        """The calls of the pass that a value depends on, in order."""
        known = self._paths.get(id(value))
        if known is None:
            given = self.now.is_leaf
            known = self._paths[id(value)] = needed_calls(
                self.calls, [value], given, backward=False
            )
        return known

    def loss_calls(self) -> Iterator[tuple[Loss, Call]]:
        """Each call that a loss depends on, with the first such loss; nearest to the loss first."""
        seen: set[int] = set()
        for loss in self.losses:
            for call in reversed(self.path(loss.value)):
                if id(call) not in seen:
                    seen.add(id(call))
                    yield loss, call

    def is_used(self, loss: Loss) -> bool:
        """Whether the update uses gradients of a loss.

        A rehearsal with a copy of the model, or a loss whose gradients are cleared, has none.
        """
        own = self.entry.weights
        if not self.entry.steps and not self.entry.evaluates:
            # No optimizer is known and no weight was updated manually, so there may be no update.
            return False
        cleared = (
            each for each in self.loop.of(Kind.CLEAR) if each.detail["number"] > loss.call.number
        )
        if any(each.written & own for each in cleared):
            return False
        return any(
            id(value.tensor) in own for call in self.path(loss.value) for value in call.operands
        )

    @property
    def plan(self) -> Plan | None:
        if (
            self._plan is None
            and self.losses
            and (size := self._bytes()) < MOST_BYTES
            and self._has_room(size)
        ):
            values = [each.value for each in self.losses]
            self._plan = plan_for(list(self.calls), self.now, self.tape, values, backward=False)
        return self._plan

    @property
    def run(self) -> Run | None:
        """The pass, replayed with gradients; None if it cannot be, or if the loss differs."""
        if not self._runs:
            self._runs.append(self._again())
        return self._runs[0]

    def _bytes(self) -> int:
        """The bytes of all results of the pass together."""
        return sum(
            value.bytes
            for call in self.calls
            if not call.inner and call.phase in ("forward", "program")
            for value in call.outputs
        )

    def _has_room(self, size: int) -> bool:
        """Whether the devices have room, so that a check does not exhaust a GPU's memory."""
        devices = {each.device for each in self.now.held.values()}
        return all(has_room(each, size) for each in devices)

    def _again(self) -> Run | None:
        if self.plan is None:
            return None
        try:
            run = replay(self.plan)
        except (Unreplayable, RuntimeError):
            return None
        return run if run.raised is None and self._is_faithful(run) else None

    def _is_faithful(self, run: Run) -> bool:
        return all(
            loss.number is None
            or loss.value not in run.contents
            or _is(run.contents[loss.value], loss.number)
            for loss in self.losses
        )

    def again(self, *wanted: Value, gradients: bool = False, **changes: Any) -> Run | None:
        """Replay the pass with changes, keeping only the wanted values."""
        if self.plan is None:
            return None
        calls = needed_calls(self.plan.calls, wanted, self.plan.is_given, backward=False)
        return _run(
            replace(self.plan, calls=calls), only=set(wanted), gradients=gradients, **changes
        )

    def with_content(
        self, value: Value, content: torch.Tensor, wanted: Value
    ) -> torch.Tensor | None:
        """The content of a value if another had this content.

        Only the calls after the changed value are replayed, unless they are random.
        """
        if self.plan is None:
            return None
        is_given = self.plan.is_given
        later = needed_calls(
            self.plan.calls,
            [wanted],
            lambda each: each is value or is_given(each),
            backward=False,
            draws=False,
        )
        if any(may_draw(call) for call in later):
            later = self.plan.calls

        def amend(call: Call, run: Run) -> None:
            if call is value.call:
                run.contents[value] = content.detach().clone()

        plan = replace(self.plan, calls=later)
        run = _run(plan, only={wanted}, gradients=False, substitute={value: content}, amend=amend)
        return run.contents.get(wanted) if run is not None else None

    def content(self, value: Value) -> torch.Tensor | None:
        """The content of a value in this pass: the live tensor, or else the result of a replay."""
        if value in self.now.before:
            return self.now.before[value]
        tensor = self.now.held.get(value, value.tensor)
        if tensor is not None and self.tape.known_value(tensor) is value:
            return tensor
        if value not in self._contents and not self._runs:
            found = self._computed(value)
            if found is not None:
                self._contents[value] = found
        if value in self._contents:
            return self._contents[value]
        return self.run.contents.get(value) if self.run is not None else None

    def _computed(self, value: Value) -> torch.Tensor | None:
        """Compute a value without a graph, freeing everything else.

        For a large pass this takes far less memory than replaying it whole.
        """
        plan = plan_for(self.calls, self.now, self.tape, [value], backward=False, draws=False)
        if len(plan.calls) <= A_FEW and not any(may_draw(call) for call in plan.calls):
            # Labels are mostly a view of the loader's batch, so the model need not run for them.
            with contextlib.suppress(Unreplayable, RuntimeError):
                return replay(plan, only={value}, gradients=False).contents.get(value)
        if self._pieces >= MOST_PIECES and self._bytes() < SMALL:
            return None
        self._pieces += 1
        run = self.again(value, *(each.value for each in self.losses))
        return run.contents.get(value) if run is not None and self._is_faithful(run) else None

    def layer_of(self, call: Call) -> nn.Module | None:
        module = getattr(call.module, "module", None)
        return module if isinstance(module, nn.Module) else None


def losses_of(calls: Sequence[Call], numbers: Sequence[float]) -> tuple[Loss, ...]:
    """The backward calls of a pass. `numbers` are the last recorded losses, newest last."""
    final = [
        call
        for call in calls
        if is_final(call) and call.operands and not call.inner and not _is_ghost(call)
    ]
    known: list[float | None] = (
        [*list(numbers)[len(numbers) - len(final) :]] if len(numbers) >= len(final) else []
    )
    known = known or [None] * len(final)
    return tuple(
        Loss(call, call.operands[0], number) for call, number in zip(final, known, strict=True)
    )


def _is_ghost(call: Call) -> bool:
    """Whether the call is a dry run on meta tensors, which have no values."""
    return call.operands[0].device.type == "meta"


def _is(tensor: torch.Tensor, number: float) -> bool:
    if tensor.numel() != 1:
        return True
    found = float(tensor.detach().item())
    return found == number or (found != found and number != number)


def _run(plan: Plan, **how: Any) -> Run | None:
    try:
        run = replay(plan, **how)
    except (Unreplayable, RuntimeError):
        return None
    return run if run.raised is None else None
