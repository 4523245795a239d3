"""Looks for mistakes that raise nothing: at recorded passes before their update, and at the ledgers after some steps."""

from __future__ import annotations

import os
import sys
import threading
import traceback
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import FrameType
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from whence.finding import Finding, described
from whence.ledgers.audit import Audit
from whence.ledgers.batches import BatchLedger, Epoch
from whence.ledgers.changes import ChangeLedger
from whence.ledgers.draws import DrawLedger
from whence.ledgers.facts import FACTS, all_weights_of, memory_of
from whence.ledgers.files import FileLedger
from whence.ledgers.inputs import InputLedger
from whence.ledgers.labels import LabelLedger
from whence.ledgers.loop import Kind, LoopLedger, OptimizerEntry
from whence.ledgers.memory import MemoryLedger
from whence.ledgers.mixing import ask_for_buffer
from whence.ledgers.orders import ask_why
from whence.ledgers.rounds import RoundLedger
from whence.ledgers.schedules import ScheduleLedger
from whence.ledgers.study import Study, losses_of
from whence.ledgers.trimming import give_back_after
from whence.ledgers.units import UnitLedger
from whence.ledgers.weights import WeightLedger, has_gradient
from whence.ledgers.wrapped import loose_leaves
from whence.rules.rule import audit_rules, study_rules
from whence.source.sites import Site, user_frames, user_stack
from whence.tape.batches import LoaderInfo, is_from_a_signal
from whence.tape.passes import PassBook
from whence.tape.scopes import Scope
from whence.tape.tape import Call, Tape, Value
from whence.tape.trip import RateTrial
from whence.watching.updates import kept_in_float32

LEDGER_STEPS = 200
MOST_STUDIES = 8
STUDIES_OF_ONE_KIND = 3
LOW = (torch.bfloat16, torch.float16)
LOOKS_AT_LOW = 12
MOST_COPIED = 16 * 2**20
CLIMBS = 6
A_FEW = 8
NONE_GIVEN: Mapping[int, torch.Tensor] = {}
AUDITS = frozenset({3, 6, 12, 24, 48, 96, 192, 400, 800, 1600, 3200, 6400, 12_800})


class Host(Protocol):
    step: int

    def say(self, findings: list[Finding]) -> None: ...
    def scene(self, frames: list[FrameType]) -> dict[str, Any]: ...
    def trouble(self, what: str) -> None: ...
    def losses(self) -> Sequence[float]: ...
    def prepared(self) -> float: ...
    def datasets(self) -> list[Any]: ...
    def roots(self) -> list[nn.Module]: ...
    def modules_built(self) -> int: ...
    def name_of(self, weight: torch.Tensor) -> str: ...


class ByHand(Optimizer):
    """Stands for a program that changes its weights itself. It never steps."""

    def __init__(self, weights: list[torch.Tensor]) -> None:
        # torch's own beginning would tell the optimizer sensor of an optimizer that the program does not have.
        self.param_groups = [{"params": weights}]
        self.state = defaultdict(dict)
        self.defaults = {}


class Auditor:
    """One for each watch."""

    def __init__(self, host: Host, passes: PassBook) -> None:
        self.host = host
        self.passes = passes
        self.loop = LoopLedger()
        self.weights = WeightLedger()
        self.memory = MemoryLedger()
        self.units = UnitLedger()
        self.batches = BatchLedger()
        self.inputs = InputLedger()
        self.labels = LabelLedger()
        self.draws = DrawLedger()
        self.changes = ChangeLedger()
        self.rounds = RoundLedger()
        self.schedules = ScheduleLedger()
        self.files = FileLedger()
        self.built: list[OptimizerEntry] = []
        self.told: set[str] = set()
        self._asked: set[object] = set()
        self._surfaced: set[tuple[str | int, ...]] = set()
        """What was told, and where that has shown itself: the same rule has nothing new to say there."""
        self._studied: dict[int, int] = {}
        self._studies = 0
        self._audited = 0
        self._kept: dict[int, tuple[int, int]] = {}
        """Weights that had a gradient when the last backward began, by identity."""
        self._leaf_losses: list[tuple[Value, tuple[Site, ...]]] = []
        self._before: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._by_hand: ByHand | None = None

    # what happens in the loop

    def optimizer_built(self, optimizer: Optimizer, stack: tuple[Site, ...]) -> None:
        entry = _entered(optimizer, stack)
        entry.modules = self.host.modules_built()
        before = next((each for each in reversed(self.built) if each.stack[:1] == stack[:1] and each.steps), None)
        entry.untouched = (
            before is not None
            and before.weights == entry.weights
            and before.version == entry.version
            and before.stateful
        )
        self.built.append(entry)
        self._note_loaded(entry, optimizer)
        del self.built[:-256]

    def has_newcomer(self) -> bool:
        """An optimizer has made one step only: a second one is worth waiting for."""
        return any(each.steps == 1 and each.optimizer is not None for each in self.built)

    def event(self, kind: Kind, stack: tuple[Site, ...], args: Any, kwargs: Any, result: Any) -> None:
        if kind is Kind.READ and self.files.is_data(stack):
            return
        subject, written, detail = FACTS[kind](args, kwargs, result)
        if kind is Kind.CLEAR:
            detail["versions"], detail["number"] = self._age(), self.passes.tape.count
        if kind in (Kind.LOAD, Kind.READ):
            detail["made"] = {each: each.steps for each in self.built}
            detail["steps"] = sum(detail["made"].values())
        if kind is Kind.LOAD:
            self.files.loaded()
            detail["owners"] = self._owners_of(subject)
        if kind is Kind.READ:
            self.files.read(detail["states"], self.host.roots())
        self.loop.note(kind, self.host.step, stack, subject, written, **detail)

    def scheduled(self, scheduler: Any, stack: tuple[Site, ...], metric: float | None = None) -> None:
        """A scheduler has set a rate, after a look at a metric maybe."""
        optimizer = getattr(scheduler, "optimizer", None)
        self.schedules.note(
            scheduler,
            stack,
            sys._getframe(2),
            step=self.host.step,
            updates=self._updates_of(optimizer) if isinstance(optimizer, Optimizer) else 0,
            epoch=self.batches.present,
            metric=metric,
        )

    def _updates_of(self, optimizer: Optimizer) -> int:
        """How often it has stepped; a wrapper, as accelerate's, has the groups of the one that steps."""
        groups = optimizer.param_groups
        return max(
            (each.steps for each in self.built if (one := each.optimizer) is not None and one.param_groups is groups),
            default=0,
        )

    def _owned(self) -> Iterator[torch.Tensor]:
        known = {id(each): each for entry in self.built if (one := entry.optimizer) for each in all_weights_of(one)}
        return (each for each in known.values() if not each.is_meta)

    def _age(self) -> int:
        """A number that moves on when weights change. Torch counts changes in place, but not those that fused optimizers make."""
        return sum(each._version for each in self._owned()) + sum(each.steps for each in self.built)

    def backward_began(self, losses: list[torch.Tensor]) -> None:
        """A loss that hangs on no graph is of interest where no weight is meant by it; so are gradients that are there already."""
        if self.host.step < LEDGER_STEPS:
            self._kept = {id(each): _mark(each) for each in self._owned() if has_gradient(each)}
        owned = frozenset[int]().union(*(each.weights for each in self.built))
        self._leaf_losses = [
            (self.passes.tape.value_of(leaf), user_stack(sys._getframe(2)))
            for each in losses
            for leaf in loose_leaves(each, owned)
        ]

    def backward_ended(self) -> None:
        if self.host.step >= LEDGER_STEPS:
            return
        if not any(each.kind is Kind.BACKWARD for each in self.loop.events):
            for weight in self._owned():
                self.weights.know(weight)
        written = self.loop.freshly_written(self._owned())
        stack = user_stack(sys._getframe(2))
        kept, now = self._kept, {id(each): _mark(each) for each in self._owned()}
        # Backward adds in place to what is there already.
        added = frozenset(
            each for each, (gradient, age) in kept.items() if now[each][0] == gradient and now[each][1] > age
        )
        about = {"versions": self._age(), "kept": frozenset(kept), "added": added}
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
        return {each: each.steps for each in self.built if each.ref() is not self._by_hand}

    def model_entered(self, module: nn.Module, args: tuple[Any, ...], source: int) -> None:
        self.changes.given(args)
        self.draws.given(args, self.host.step)
        if self.inputs.note(module, args, source):
            frame = sys._getframe(2)
            self.audit(user_stack(frame), user_frames(frame), final=False)

    # before an update

    def count_step(self, optimizer: Optimizer) -> OptimizerEntry:
        entry = self.built[-1] if self.built and self.built[-1].ref() is optimizer else self._entry(optimizer)
        entry.steps += 1
        if len(optimizer.param_groups) != entry.groups:
            entry.groups = len(optimizer.param_groups)
            entry.weights |= {id(each) for each in all_weights_of(optimizer)}
            self._note_loaded(entry, optimizer)
        rate = optimizer.param_groups[0].get("lr") if optimizer.param_groups else None
        if isinstance(rate, float | int) and (rate != entry.climb.rate or entry.climb.factor != 1.0):
            entry.climb.note(rate)
            if rate not in entry.rates:
                entry.rates = min(rate, *entry.rates, rate), max(rate, *entry.rates, rate)
        return entry

    def step_began(self, optimizer: Optimizer) -> None:
        entry = self.count_step(optimizer)
        now = self.passes.current
        is_early = self.host.step < LEDGER_STEPS
        if self.rounds.open:
            self.rounds.note_turns(sys._getframe(2))
        if not is_early and not now.recorded:
            return
        stack = user_stack(sys._getframe(2))
        if is_early:
            self._look_for_rounds(stack)
            used = frozenset(id(each) for each in all_weights_of(optimizer) if each.grad is not None)
            self.loop.note(Kind.STEP, self.host.step, stack, optimizer, used, entry=entry)
        self._look_before(optimizer, entry)
        if now.recorded and self.files.is_open:
            own = self.files.begun(all_weights_of(optimizer), now.held.values(), self.host.roots())
            if own is not None:
                self.loop.note(Kind.BEGUN, self.host.step, stack, trained=own[0], others=own[1])
        if now.recorded and now.backwards:
            self._study(optimizer, entry, stack)

    def tests_rates(self, optimizer: Optimizer) -> bool:
        """Whether a range test is under way."""
        return self._entry(optimizer).climb.times >= CLIMBS

    def keeps_rate(self, optimizer: Optimizer) -> bool:
        """Whether it has stepped with one rate only, which is the one it has, and is the only one that steps."""
        stepping = [each for each in self.built if each.steps]
        rate = optimizer.param_groups[0]["lr"]
        return stepping == [self._entry(optimizer)] and stepping[0].rates == (rate, rate)

    def overshot(self, optimizer: Optimizer, trial: RateTrial | None) -> None:
        entry = self._entry(optimizer)
        entry.overshot = entry.overshot or trial

    def evaluates(self, optimizer: Optimizer) -> None:
        """A step that is given a closure: what it does between its evaluations is its own affair."""
        self._entry(optimizer).evaluates = True

    def evaluation_began(self, optimizer: Optimizer) -> None:
        if self.host.step < LEDGER_STEPS:
            self.loop.note(Kind.EVALUATE, self.host.step, user_stack(sys._getframe(2)), optimizer)

    def evaluation_ended(self, optimizer: Optimizer) -> None:
        """What a closure computed is a pass like any other, at whatever point its optimizer tries."""
        if self.host.step < LEDGER_STEPS:
            self.loop.note(Kind.EVALUATED, self.host.step, (), optimizer)
        now = self.passes.current
        if now.recorded and now.backwards:
            self._study(optimizer, self._entry(optimizer), user_stack(sys._getframe(2)))

    def _look_for_rounds(self, stack: tuple[Site, ...]) -> None:
        if self.rounds.is_new(stack):
            self.rounds.enter(user_frames(sys._getframe(3)))
            self.rounds.note_turns(sys._getframe(3))

    def _look_before(self, optimizer: Optimizer, entry: OptimizerEntry) -> None:
        """Copies of weights that the step should not change, or may fail to change."""
        frozen = [each for each in all_weights_of(optimizer) if not each.requires_grad and each.grad is not None]
        low = [each for each in all_weights_of(optimizer) if each.dtype in LOW and each.grad is not None]
        low = low if entry.steps < LOOKS_AT_LOW and sum(each.numel() for each in low) < MOST_COPIED else []
        self._before = [(each, each.detach().clone()) for each in (*frozen, *low)]

    def _look_after(self, optimizer: Optimizer) -> None:
        moved = [each for each, before in self._before if not each.requires_grad and not torch.equal(each, before)]
        low = [(each, before) for each, before in self._before if each.requires_grad and each.grad is not None]
        if moved:
            freezing = [_freezing(self.passes.tape, each) for each in moved]
            sites = [call.stack for call in freezing if call is not None]
            names = tuple(map(self.host.name_of, moved))
            self.loop.note(Kind.MOVED, self.host.step, sites[0] if sites else (), optimizer, names=names)
        if low:
            self.loop.note(Kind.LOST, self.host.step, (), optimizer, **_lost(optimizer, low))
        self._before = []

    def _entry(self, optimizer: Optimizer) -> OptimizerEntry:
        known = next((each for each in reversed(self.built) if each.ref() is optimizer), None)
        if known is None:
            known = _entered(optimizer, ())
            self.built.append(known)
            self._note_loaded(known, optimizer)
        return known

    def _owners_of(self, module: nn.Module) -> list[OptimizerEntry]:
        own = set(memory_of(nn.Module.parameters(module)))
        there = ((each, one) for each in self.built if (one := each.optimizer) is not None)
        return [each for each, one in there if not own.isdisjoint(memory_of(all_weights_of(one)))]

    def _note_loaded(self, entry: OptimizerEntry, optimizer: Optimizer) -> None:
        """While both are there: of what is gone, the identities belong to others."""
        own = set(memory_of(all_weights_of(optimizer)))
        for event in self.loop.events:
            module = event.subject() if event.kind is Kind.LOAD and event.subject is not None else None
            if module is None or entry in event.detail["owners"]:
                continue
            if not own.isdisjoint(memory_of(nn.Module.parameters(module))):
                event.detail["owners"].append(entry)

    def _study(
        self,
        optimizer: Optimizer,
        entry: OptimizerEntry,
        stack: tuple[Site, ...],
        given: Mapping[int, torch.Tensor] = NONE_GIVEN,
    ) -> None:
        if self._studies >= MOST_STUDIES * STUDIES_OF_ONE_KIND or any(
            each.is_meta for each in all_weights_of(optimizer)
        ):
            return
        calls = tuple(self.passes.calls())
        held = self.passes.current.held.values()
        weights = frozenset(id(each) for each in held if each.requires_grad and each.is_leaf)
        structure = hash((weights, *((call.name, call.site, _mode_of(call)) for call in calls)))
        seen = self._studied[structure] = self._studied.get(structure, 0) + 1
        if seen > STUDIES_OF_ONE_KIND and self.host.step not in AUDITS:
            return
        study = self._study_of(calls, optimizer, entry, stack)
        study.given = given
        if self.host.step in AUDITS:
            self.units.look(study)
        if seen <= STUDIES_OF_ONE_KIND:
            self._studies += 1
            self.weights.enter(_used(calls), self.host.step, study.gradient_of)
            self._name_unowned()
            # It replays, as rules do: where it fails, that is noted as theirs is.
            self._tell([("data/misaligned", self.batches.look), *study_rules()], study)
        del study
        give_back_after(calls)

    def _study_of(
        self, calls: tuple[Call, ...], optimizer: Optimizer, entry: OptimizerEntry, stack: tuple[Site, ...]
    ) -> Study:
        return Study(
            **self.host.scene(user_frames(sys._getframe(3))),
            now=self.passes.current,
            step=self.host.step,
            stack=stack,
            calls=calls,
            losses=losses_of(calls, self.host.losses()),
            course=self.host.losses(),
            leaf_losses=self._leaf_losses,
            optimizer=optimizer,
            entry=entry,
            built=self.built,
            loop=self.loop,
            told=self.told,
            asked=self._asked,
        )

    def _name_unowned(self) -> None:
        """While the model is alive: the names of weights that somebody may have to speak of at the end. Then a few of the others as well:
        they show whose weights the optimizers have."""
        owned = frozenset[int]().union(*(each.weights for each in self.built))
        entries = [each for each in self.weights.entries() if not each.name]
        loose = [each for each in entries if id(each.weight) not in owned or not each.gradients]
        others = (each for each in entries if id(each.weight) in owned and each.gradients)
        for entry in (*loose, *islice(others, A_FEW if loose else 0)):
            if (weight := entry.weight) is not None:
                entry.name = self.host.name_of(weight)

    # loops without an optimizer

    def before_update_by_hand(self, inputs: list[torch.Tensor], gradients: list[torch.Tensor]) -> None:
        """Backward has ended, and no optimizer will say when its gradients are used: this is the last moment before that.

        Where they were asked for they are not at the weights. Those with a graph of their own are part of a loss to come.
        """
        now = self.passes.current
        weights = inputs or [each for each in now.held.values() if each.requires_grad and each.is_leaf]
        are_part = any(each.requires_grad for each in gradients) or not all(each.is_leaf for each in weights)
        if not now.recorded or not weights or are_part:
            return
        if self._by_hand is None:
            self._by_hand = ByHand(weights)
            self.built.append(_entered(self._by_hand, ()))
        self._by_hand.param_groups = [{"params": weights}]
        entry = self._entry(self._by_hand)
        entry.weights |= {id(each) for each in weights}
        given = {id(one): gradient for one, gradient in zip(inputs, gradients, strict=False)}
        self._study(self._by_hand, entry, user_stack(sys._getframe(3)), given)

    def forget_hand(self) -> None:
        """There is an optimizer after all."""
        if self._by_hand is not None:
            self.built = [each for each in self.built if each.ref() is not self._by_hand]
            self._by_hand = None

    def stepped_by_hand(self, step: int) -> None:
        if self._by_hand is not None:
            entry = self._entry(self._by_hand)
            entry.steps += 1
            if step < LEDGER_STEPS:
                used = [id(each) for each in all_weights_of(self._by_hand) if each.grad is not None]
                self.loop.note(Kind.STEP, step - 1, user_stack(sys._getframe(3)), self._by_hand, used, entry=entry)

    # after some steps, and at the end

    def step_ended(self, optimizer: Optimizer, steps: int) -> None:
        entry = self._entry(optimizer)
        # Of a step that torch.compile runs only the end is told.
        entry.steps = entry.steps or 1
        entry.stateful = entry.stateful or _is_stateful(optimizer)
        entry.version = _version(optimizer)
        if self._before:
            self._look_after(optimizer)
        if steps in AUDITS and steps != self._audited:
            self._audited = steps
            self.audit(user_stack(sys._getframe(2)), user_frames(sys._getframe(2)), final=False)

    def stands_still(self, stack: tuple[Site, ...], frames: list[FrameType], seconds: float) -> None:
        """The program waits, and nothing computes."""
        audit = self._audit_of(stack, frames, final=False)
        audit.waiting = seconds
        audit.threads = max(0, threading.active_count() - 2)
        self._tell([(id, ask) for id, ask in audit_rules() if id == "memory/hang"], audit)

    def tell_of(self, rule: str, stack: tuple[Site, ...], frames: list[FrameType]) -> list[Finding]:
        """One rule only: the program has failed, and this is why."""
        return self._tell(
            [(id, ask) for id, ask in audit_rules() if id == rule], self._audit_of(stack, frames, final=False)
        )

    def audit(self, stack: tuple[Site, ...], frames: list[FrameType], final: bool) -> None:
        if final:
            self.rounds.at_the_end()
        self.look_at_memory(self.host.step, frames)
        self._tell(audit_rules(), self._audit_of(stack, frames, final))

    def look_at_memory(self, step: int, frames: list[FrameType]) -> None:
        sites = [site for call in list(self.passes.tape.calls)[-100:] for site in call.stack]
        self.memory.look(step, frames, sites, self.host.datasets(), self.host.roots())

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
            built=self.built,
            losses=self.host.losses(),
            told=self.told,
            prepared=self.host.prepared(),
        )

    def _tell(self, rules: Iterable[tuple[str, Callable[[Any], Finding | None]]], scene: Any) -> list[Finding]:
        told = []
        for id, ask in rules:
            try:
                found = ask(scene)
            except Exception as error:
                if is_from_a_signal(error):
                    raise
                self.host.trouble(f"{id} failed ({described(error).splitlines()[0]})")
                if "WHENCE_DEBUG" in os.environ:
                    traceback.print_exc()
                continue
            if found is None:
                continue
            self.told.add(id)
            # What is asked again later, when less of the program is left, may find another line for the same thing.
            surfaced = {(id, found.symptom.file, found.symptom.line), (id, found.verdict)}
            if not surfaced & self._surfaced:
                self.host.say([found])
                told.append(found)
            self._surfaced |= surfaced
        return told


def _mark(weight: torch.Tensor) -> tuple[int, int]:
    """Which tensor its gradient is, and how often that was changed."""
    gradient = weight.grad
    return id(gradient), gradient._version if gradient is not None else -1


def _entered(optimizer: Optimizer, stack: tuple[Site, ...]) -> OptimizerEntry:
    weights = frozenset(id(each) for each in all_weights_of(optimizer))
    entry = OptimizerEntry(
        weakref.ref(optimizer), type(optimizer).__name__, stack, weights, len(optimizer.param_groups)
    )
    entry.version = _version(optimizer)
    entry.settings = tuple(_settings(optimizer))
    return entry


def _settings(optimizer: Optimizer) -> Iterator[str]:
    for name in ("momentum", "betas", "weight_decay"):
        value = optimizer.defaults.get(name)
        if isinstance(value, tuple) or (isinstance(value, float | int) and value):
            yield f"{name}={value}"


def _version(optimizer: Optimizer) -> int:
    first = next(all_weights_of(optimizer), None)
    return first._version if first is not None else -1


def _is_stateful(optimizer: Optimizer) -> bool:
    """Whether it keeps moments or momentum."""
    state = next(iter(optimizer.state.values()), None)
    return isinstance(state, dict) and any(isinstance(each, torch.Tensor) and each.dim() for each in state.values())


def _freezing(tape: Tape, weight: torch.Tensor) -> Call | None:
    """The call that switched a weight's gradient off."""
    for call in reversed(tape.calls):
        if call.name in ("requires_grad_", "requires_grad.__set__") and any(
            each.tensor is weight for each in call.operands
        ):
            return call
    return None


def _lost(optimizer: Optimizer, low: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, Any]:
    """How many elements of low-precision weights a step was to change, and how many it left as they were before."""
    aimed = sum(int(each.grad.count_nonzero()) for each, _ in low if each.grad is not None)
    kept = [int(((each == before) & (each.grad != 0)).sum()) if each.grad is not None else 0 for each, before in low]
    worst = low[kept.index(max(kept))][0]
    return {
        "aimed": aimed,
        "kept": sum(kept),
        "in_float32": kept_in_float32(optimizer) if sum(kept) > 0.5 * aimed else None,
        "dtype": worst.dtype,
        "worst": weakref.ref(worst),
    }


def _mode_of(call: Call) -> bool | None:
    return call.module.training if isinstance(call.module, Scope) else None


def _used(calls: Sequence[Call]) -> Iterator[tuple[torch.Tensor, Call, bool]]:
    """Weights that took part in a pass, each with the first call that used it, with gradients on if there is one."""
    seen: set[int] = set()
    for call in sorted(calls, key=lambda each: not each.grad_mode):
        if call.phase not in ("forward", "program") or call.inner:
            continue
        for value in call.operands:
            tensor = value.tensor
            if tensor is None or id(tensor) in seen or not tensor.requires_grad or not tensor.is_leaf or tensor.is_meta:
                continue
            seen.add(id(tensor))
            module = getattr(call.module, "module", None)
            yield tensor, call, bool(getattr(module, "training", True))
