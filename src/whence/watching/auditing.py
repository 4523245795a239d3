"""The ledgers of a watch, and the audits that search them for mistakes that raise nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.ledgers.batches import BatchLedger, Epoch
from whence.ledgers.changes import ChangeLedger
from whence.ledgers.draws import DrawLedger
from whence.ledgers.facts import FACTS, all_weights_of
from whence.ledgers.files import FileLedger
from whence.ledgers.inputs import InputLedger
from whence.ledgers.labels import LabelLedger
from whence.ledgers.loop import Event, Kind, LoopLedger, OptimizerEntry
from whence.ledgers.memory import MemoryLedger
from whence.ledgers.mixing import ask_for_buffer
from whence.ledgers.optimizers import OptimizerLedger
from whence.ledgers.orders import ask_why
from whence.ledgers.rounds import RoundLedger
from whence.ledgers.schedules import ScheduleLedger
from whence.ledgers.units import UnitLedger
from whence.ledgers.weights import WeightLedger, has_gradient
from whence.rules.rule import audit_rules
from whence.source.sites import Site, user_frames, user_stack
from whence.tape.batches import LoaderInfo
from whence.tape.finite import weights_of
from whence.tape.passes import PassBook
from whence.watching.asking import Asking
from whence.watching.budget import Budget
from whence.watching.movements import Movements
from whence.watching.studying import AUDITS, Studies

LEDGER_STEPS = 200
FIRST_AUDIT = min(AUDITS)
"""This audit runs regardless of its cost."""
AUDIT = "audits"
COMPARISONS = "comparisons of evaluation inputs"


class Host(Protocol):
    step: int

    def say(self, findings: list[Finding]) -> None: ...
    def scene(self, frames: list[FrameType]) -> dict[str, Any]: ...
    def trouble(self, what: str) -> None: ...
    def losses(self) -> Sequence[float]: ...
    def prepared(self) -> float: ...
    def datasets(self) -> list[Any]: ...
    def roots(self) -> list[nn.Module]: ...
    def tops(self) -> list[nn.Module]: ...
    def name_of(self, weight: torch.Tensor) -> str: ...


class Auditor:
    """Fills and audits the ledgers of one watch."""

    def __init__(self, host: Host, passes: PassBook, budget: Budget) -> None:
        self.host = host
        self.budget = budget
        self.passes = passes
        self.loop = LoopLedger()
        self.optimizers = OptimizerLedger(self.loop)
        self.weights = WeightLedger()
        self.memory = MemoryLedger()
        self.units = UnitLedger()
        self.batches = BatchLedger(budget.allows)
        self.inputs = InputLedger(budget.allows)
        self.labels = LabelLedger()
        self.draws = DrawLedger()
        self.changes = ChangeLedger()
        self.rounds = RoundLedger()
        self.schedules = ScheduleLedger()
        self.files = FileLedger()
        self.asking = Asking(host)
        ledgers = self.loop, self.optimizers, self.weights, self.units, self.batches
        self.studies = Studies(host, passes, budget, self.asking, *ledgers)
        self._movements = Movements(self.loop, passes.tape, host.name_of)
        self._audited = 0
        self._compared = 0
        self._kept: dict[int, tuple[int, int]] = {}
        """Weights that had a gradient when the last backward began, by identity."""

    # Events of the loop.

    def event(
        self, kind: Kind, stack: tuple[Site, ...], args: Any, kwargs: Any, result: Any
    ) -> None:
        if kind is Kind.READ and self.files.is_data(stack):
            return
        subject, written, detail = FACTS[kind](args, kwargs, result)
        if kind in (Kind.CLEAR, Kind.UNSCALE):
            detail["versions"], detail["number"] = self.optimizers.age(), self.passes.tape.count
        if kind is Kind.CLIP and detail["empty"] and written:
            detail["are_gradients"] = set(written) <= {
                id(each.grad) for each in self.optimizers.weights()
            }
        if kind is Kind.SAVE:
            detail["kept"] = self.loop.states_among(detail.pop("held"))
        if kind in (Kind.LOAD, Kind.READ, Kind.RESTORE):
            detail["made"] = {each: each.steps for each in self.optimizers.entries}
            detail["steps"] = sum(detail["made"].values())
        if kind is Kind.LOAD:
            self.files.loaded()
            detail["owners"] = self.optimizers.owners_of(subject)
        if kind is Kind.READ:
            self.files.read(detail["states"], self.host.roots())
        self.loop.note(kind, self.host.step, stack, subject, written, **detail)

    def scheduled(
        self, scheduler: Any, stack: tuple[Site, ...], metric: float | None = None
    ) -> None:
        """Record that a scheduler has set a learning rate, possibly from a metric."""
        optimizer = getattr(scheduler, "optimizer", None)
        self.schedules.note(
            scheduler,
            stack,
            sys._getframe(2),
            step=self.host.step,
            updates=self.optimizers.updates_of(optimizer)
            if isinstance(optimizer, Optimizer)
            else 0,
            epoch=self.batches.present,
            metric=metric,
        )

    def backward_began(self, losses: list[torch.Tensor]) -> None:
        """Record which gradients exist already."""
        if self.host.step < LEDGER_STEPS:
            self._kept = {
                id(each): _mark(each) for each in self.optimizers.weights() if has_gradient(each)
            }
        self.studies.backward_began(losses)

    def backward_ended(self, noted: bool) -> None:
        """Record a backward; `noted` if it wrote gradients and the loop's order is recorded."""
        held = self.loop.release()
        if noted and self.host.step < LEDGER_STEPS:
            self._note_backward(held)
        for event in held:
            self.loop.events.append(event)
            if event.kind is Kind.STEP:
                self.studies.ends_within()
        self.studies.ends_within()

    def backward_failed(self) -> None:
        self.loop.events.extend(self.loop.release())
        self.studies.forget_within()

    def _note_backward(self, held: Iterable[Event]) -> None:
        if not any(each.kind is Kind.BACKWARD for each in self.loop.events):
            for weight in self.optimizers.weights():
                self.weights.know(weight)
        used = (each.written for each in held if each.kind is Kind.STEP)
        written = self.loop.freshly_written(self.optimizers.weights()).union(*used)
        stack = user_stack(sys._getframe(3))
        kept, now = self._kept, {id(each): _mark(each) for each in self.optimizers.weights()}
        # Backward adds in place to existing gradients.
        added = frozenset(
            each
            for each, (gradient, age) in kept.items()
            if now[each][0] == gradient and now[each][1] > age
        )
        about = {"versions": self.optimizers.age(), "kept": frozenset(kept), "added": added}
        self.loop.note(Kind.BACKWARD, self.host.step, stack, None, written, **about)
        self._kept = {}

    def epoch_began(self, info: LoaderInfo, stack: tuple[Site, ...]) -> None:
        self.batches.epoch_began(info, stack, self._steps())
        ask_why(self.batches, info)

    def epoch_ended(self, info: LoaderInfo) -> Epoch | None:
        epoch = self.batches.epoch_ended(info, self._steps())
        ask_why(self.batches, info)
        ask_for_buffer(self.batches, info)
        return epoch

    def _steps(self) -> dict[OptimizerEntry, int]:
        return {
            each: each.steps
            for each in self.optimizers.entries
            if each.ref() is not self.studies.by_hand
        }

    def model_entered(self, module: nn.Module, args: tuple[Any, ...], source: int) -> None:
        self.changes.given(args)
        self.draws.given(args, self.host.step)
        if self.inputs.note(module, args, source) and self._may_compare(source):
            self._compared += 1
            frame = sys._getframe(2)
            self.audit(user_stack(frame), user_frames(frame), final=False)

    def _may_compare(self, source: int) -> bool:
        """Whether the budget allows a comparison, which costs as much as an audit."""
        may = self._compared == 0 or self.budget.has_room(AUDIT)
        (self.budget.take_in if may else self.budget.leave_out)(COMPARISONS, source)
        return may

    # Updates.

    def step_began(self, optimizer: Optimizer, within: bool = False) -> None:
        """Record a step. One `within` a backward is studied when the backward has ended."""
        entry = self.optimizers.count_step(optimizer)
        now = self.passes.current
        is_early = self.host.step < LEDGER_STEPS
        if self.rounds.open:
            self.rounds.note_turns(sys._getframe(2))
        if not is_early and not now.recorded:
            return
        stack = user_stack(sys._getframe(2))
        if is_early:
            self._look_for_rounds(stack)
            used = frozenset(
                id(each) for each in all_weights_of(optimizer) if each.grad is not None
            )
            self.loop.note(
                Kind.STEP, self.host.step, stack, optimizer, used, entry=entry, within=within
            )
        self._movements.step_began(optimizer, entry)
        if now.recorded and self.files.is_open:
            own = self.files.begun(all_weights_of(optimizer), now.held.values(), self.host.roots())
            if own is not None:
                self.loop.note(Kind.BEGUN, self.host.step, stack, trained=own[0], others=own[1])
        if within:
            self.passes.note_update(weights_of(optimizer))
            self.studies.begins_within(optimizer, entry, stack)
        else:
            self.studies.before_update(optimizer, entry, stack)

    def evaluation_began(self, optimizer: Optimizer) -> None:
        if self.host.step < LEDGER_STEPS:
            self.loop.note(Kind.EVALUATE, self.host.step, user_stack(sys._getframe(2)), optimizer)

    def evaluation_ended(self, optimizer: Optimizer) -> None:
        """Study the pass of a closure, at whatever point its optimizer tries."""
        if self.host.step < LEDGER_STEPS:
            self.loop.note(Kind.EVALUATED, self.host.step, (), optimizer)
        self.studies.before_update(
            optimizer, self.optimizers.entry_of(optimizer), user_stack(sys._getframe(2))
        )

    def _look_for_rounds(self, stack: tuple[Site, ...]) -> None:
        if self.rounds.is_new(stack):
            self.rounds.enter(user_frames(sys._getframe(3)))
            self.rounds.note_turns(sys._getframe(3))

    def updated(self, optimizer: Optimizer) -> None:
        self.optimizers.updated(optimizer)
        self._movements.step_ended(optimizer, self.host.step)

    def step_ended(self, optimizer: Optimizer, steps: int) -> None:
        self.updated(optimizer)
        if steps in AUDITS and steps != self._audited:
            self._audited = steps
            if steps > FIRST_AUDIT and not self.budget.has_room(AUDIT):
                # The final audit covers everything that this one would.
                return
            self.audit(user_stack(sys._getframe(2)), user_frames(sys._getframe(2)), final=False)

    def stepped_by_hand(self, step: int) -> None:
        hand = self.studies.by_hand
        if hand is not None:
            entry = self.optimizers.entry_of(hand)
            entry.steps += 1
            if step < LEDGER_STEPS:
                used = [id(each) for each in all_weights_of(hand) if each.grad is not None]
                self.loop.note(
                    Kind.STEP, step - 1, user_stack(sys._getframe(3)), hand, used, entry=entry
                )

    # Audits after some steps, and at the end.

    def stands_still(
        self,
        stack: tuple[Site, ...],
        frames: list[FrameType],
        seconds: float,
        rank: tuple[int, int] | None,
    ) -> None:
        """Report a program that waits while nothing computes."""
        audit = self._audit_of(stack, frames, final=False)
        audit.waiting = seconds
        audit.rank = rank
        audit.threads = max(0, threading.active_count() - 1)
        self.asking.ask([(id, ask) for id, ask in audit_rules() if id == "memory/hang"], audit)

    def report_one(
        self, rule: str, stack: tuple[Site, ...], frames: list[FrameType]
    ) -> list[Finding]:
        """Run one rule only: the program has failed, and this rule knows the reason."""
        return self.asking.ask(
            [(id, ask) for id, ask in audit_rules() if id == rule],
            self._audit_of(stack, frames, final=False),
        )

    def audit(self, stack: tuple[Site, ...], frames: list[FrameType], final: bool) -> None:
        if final:
            self.rounds.at_the_end()
        rules = audit_rules()
        with self.budget.spending(AUDIT):
            self.look_at_memory(self.host.step, frames)
            self.asking.ask(rules, self._audit_of(stack, frames, final))

    def look_at_memory(self, step: int, frames: list[FrameType]) -> None:
        sites = [site for call in list(self.passes.tape.calls)[-100:] for site in call.stack]
        self.memory.look(step, frames, sites, self.host.datasets(), self.host.tops())

    def _audit_of(self, stack: tuple[Site, ...], frames: list[FrameType], final: bool) -> Audit:
        return Audit(
            **self.host.scene(frames),
            step=self.host.step,
            final=final,
            stack=stack,
            loop=self.loop,
            weights=self.weights,
            memory=self.memory,
            units=self.units,
            batches=self.batches,
            inputs=self.inputs,
            labels=self.labels,
            draws=self.draws,
            changes=self.changes,
            rounds=self.rounds,
            schedules=self.schedules,
            built=self.optimizers.entries,
            losses=self.host.losses(),
            told=self.asking.told,
            prepared=self.host.prepared(),
        )


def _mark(weight: torch.Tensor) -> tuple[int, int]:
    """The identity and version of a weight's gradient."""
    gradient = weight.grad
    return id(gradient), gradient._version if gradient is not None else -1
