"""What is recorded, and for how long: the first steps, new structures, and a few later steps.

Recording is free for a number of calls within a part of the budget, and then runs as the budget
allows.
"""

from __future__ import annotations

from time import perf_counter, thread_time
from typing import Any, Protocol

import torch
from torch import nn

from whence.sensors.calls import CallSensor
from whence.sensors.loop import OrderSensor
from whence.sensors.modules import ModuleSensor
from whence.tape.batches import Form
from whence.tape.passes import PassBook, structure_of
from whence.tape.scopes import Scope
from whence.tape.tape import Tape
from whence.watching.auditing import LEDGER_STEPS
from whence.watching.budget import Budget
from whence.watching.studying import AUDITS

RECORDED_STEPS = 3
MOST_SIGNATURES = 24
GRACE_CALLS = 6_000
"""Calls recorded while their part of the budget lasts."""
FEW_SIGNATURES = 4
SHAPES = "shapes of batches and inputs"
MOST_FORMS = 64
ENTRY_SECONDS = 2.5e-5
"""The cost of one module hook."""
PATIENT_STEPS = 20
RECORDING_SHARE = HOOK_SHARE = 1 / 3
"""Shares of the budget for recording beyond its first calls, and for module hooks in a step."""


class Host(Protocol):
    """The owner of the sensors."""

    step: int
    scope: Scope | None

    def cost(self) -> float: ...
    def has_newcomer(self) -> bool: ...


class Pace:
    """Turns sensors off and on again. One for each watch."""

    def __init__(
        self,
        host: Host,
        budget: Budget,
        tape: Tape,
        passes: PassBook,
        calls: CallSensor,
        modules: ModuleSensor,
        order: OrderSensor,
    ) -> None:
        self.host = host
        self.budget = budget
        self.tape = tape
        self.passes = passes
        self.calls = calls
        self.modules = modules
        self.order = order
        self.began = perf_counter()
        self._signatures: set[Any] = set()
        self._forms: dict[tuple[int, bool, bool], Form] = {}
        """The last inputs of outermost modules, by identity, mode and grad mode."""
        self.prepared = 0.0
        """Seconds of the program itself before its first step."""
        self._step_began = 0.0
        """In CPU time of this thread."""
        self._dear_steps = 0
        self._last_node = self._nodes = 0
        """Autograd's number of the last loss's node, and the nodes created since the one before."""
        self.has_new_loss = False
        self._hooks_off = False
        """Whether the module sensor is on for one pass only."""

    def recording(self) -> bool:
        return self.calls.on and not self.calls.resting

    # Steps.

    def is_settled(self) -> bool:
        """Whether nothing is recorded, and the order of the loop is known."""
        return not self.calls.on and not self.order.on

    def is_quiet(self) -> bool:
        """Whether in addition the next step need not be recorded."""
        return self.is_settled() and not self.has_new_loss

    def step_made(self) -> None:
        """Decide whether to record the next step."""
        self.prepared = self.prepared or perf_counter() - self.began - self.host.cost()
        if self._slow_down():
            if self._hooks_off:
                self._take_hooks_off()
        elif not self.calls.on:
            self.judge_hooks()
        self._hooks_off = False
        wanted, self.has_new_loss = self.host.step in AUDITS or self.has_new_loss, False
        if wanted and not self.calls.on and self.host.scope is None:
            # There are few of these passes, so they are recorded regardless of cost.
            self._hooks_off = not self.modules.on
            self.record()

    def record(self) -> None:
        self.modules.start()
        self.calls.start()

    def _slow_down(self) -> bool:
        """Turn off sensors that are expensive or no longer needed. True if recording ends here."""
        if self.host.step >= LEDGER_STEPS:
            self.order.stop()
        ends = self.calls.on and (
            self.calls.resting or (self.host.step >= RECORDED_STEPS and self._is_dear())
        )
        if ends:
            self.calls.stop()
            self.tape.has_gaps = True
            self._step_began = thread_time()
            self.modules.calls = 0
        return ends

    def judge_entries(self) -> None:
        """Judge the hooks after many entries without a step, such as in an evaluation."""
        if self.calls.resting:
            self.calls.stop()
        self.judge_hooks()

    def judge_hooks(self, steps: int = 1) -> None:
        """Turn off module hooks if they are expensive relative to the last steps.

        New shapes are then seen by loaders only. Steps are measured in CPU time, since short steps
        take long on a busy machine.
        """
        now = thread_time()
        if self.modules.on and self.modules.calls:
            share = self.modules.calls * ENTRY_SECONDS / max(now - self._step_began, 1e-9)
            # One step that happened to be slow does not make the hooks cheap.
            self._dear_steps = max(
                self._dear_steps + (steps if share > HOOK_SHARE * self.budget.share else -steps), 0
            )
            if self._dear_steps >= PATIENT_STEPS:
                self._take_hooks_off()
        self.modules.calls = 0
        self._step_began = now

    def _take_hooks_off(self) -> None:
        self.modules.stop()
        self.host.scope = None

    # Calls.

    def leave_off(self) -> None:
        """Stop recording a long evaluation or rollout, which repeats itself."""
        if not self.calls.resting and self._is_dear():
            self.calls.resting = self.tape.has_gaps = True
            self.passes.current.recorded = False

    def _is_dear(self) -> bool:
        waits = self.host.step < PATIENT_STEPS and self.host.has_newcomer()
        grace = GRACE_CALLS * (2 if waits else 1)
        return not self._may_record(in_grace=self.tape.count <= grace)

    def _may_record(self, in_grace: bool) -> bool:
        """Whether recording may continue.

        Beyond its first calls it has no part of the floor, so that its length hardly depends on the
        machine.
        """
        allowance = (
            self.budget.allowance() if in_grace else self.budget.share * self.budget.run_seconds()
        )
        return self.calls.seconds <= RECORDING_SHARE * allowance and self.budget.has_room()

    # New structures.

    def note_signature(self, signature: Any) -> None:
        """Record from here on if a batch or an input is unlike all before."""
        if self._is_new(signature) and not self.recording():
            self.record()
            self.passes.record_from_here()

    def note_inputs(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Check the inputs of an outermost module."""
        key = id(module), module.training, torch.is_grad_enabled()
        form = self._forms.get(key)
        if form is None:
            if len(self._forms) >= MOST_FORMS:
                self._forms.clear()
            form = self._forms[key] = Form()
        elif form.is_like_last(args):
            return
        form.learn(args)
        self.note_signature(("module", *key, form.signature))

    def note_loss(self, loss: torch.Tensor) -> None:
        """Record the next step if a loss is computed in a new way."""
        node = loss.grad_fn
        last, self._last_node = self._last_node, node._sequence_nr() if node is not None else 0
        made, self._nodes = self._nodes, self._last_node - last
        if made == self._nodes:
            # As many nodes as in the step before, so the structure is the same.
            return
        if self._is_new(("loss", structure_of(loss))):
            self.has_new_loss = not self.calls.on

    def _is_new(self, signature: Any) -> bool:
        """Whether a signature is unlike all before, and there have not been too many."""
        try:
            is_new = signature not in self._signatures
        except TypeError:
            # Symbolic sizes occur while a program is exported, which has no step to record.
            return False
        if not is_new:
            return False
        self._signatures.add(signature)
        if len(self._signatures) <= FEW_SIGNATURES:
            return True
        if len(self._signatures) > MOST_SIGNATURES:
            # A program whose sentences all differ in length is not recorded forever.
            return not self._is_dear()
        may = self.budget.has_room()
        if not may:
            self.budget.leave_out(SHAPES, signature)
        return may
