"""Studies of recorded passes just before their update, for mistakes that raise nothing."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Sized
from itertools import islice
from types import FrameType
from typing import Any, Protocol

import torch
from torch.optim import Optimizer

from whence.ledgers.batches import BatchLedger
from whence.ledgers.facts import all_weights_of
from whence.ledgers.loop import LoopLedger, OptimizerEntry
from whence.ledgers.optimizers import OptimizerLedger
from whence.ledgers.study import Study, losses_of
from whence.ledgers.trimming import give_back_after
from whence.ledgers.units import UnitLedger
from whence.ledgers.weights import WeightLedger
from whence.ledgers.wrapped import loose_leaves
from whence.rules.rule import study_rules
from whence.source.sites import Site, user_frames, user_stack
from whence.tape.passes import PassBook
from whence.tape.readable import is_readable
from whence.tape.scopes import Scope
from whence.tape.tape import Call, Value
from whence.watching.asking import Asking
from whence.watching.budget import Budget

AUDITS = frozenset({3, 6, 12, 24, 48, 96, 192, 400, 800, 1600, 3200, 6400, 12_800})
"""The steps after which the ledgers are audited. These steps are recorded."""
FREE_STRUCTURES = 2
"""This many are always studied once: the steps of a generator and of its discriminator."""
MOST_STRUCTURES = 24
STEPS = "kinds of steps"
STUDIES_OF_ONE_KIND = 3
A_FEW = 8
NONE_GIVEN: Mapping[int, torch.Tensor] = {}


class Host(Protocol):
    step: int

    def scene(self, frames: list[FrameType]) -> dict[str, Any]: ...
    def losses(self) -> Sequence[float]: ...
    def name_of(self, weight: torch.Tensor) -> str: ...


class ByHand(Optimizer):
    """Stands for a program that changes its weights itself. It never steps."""

    def __init__(self, weights: list[torch.Tensor]) -> None:
        # `Optimizer.__init__` would report an optimizer that the program does not have to the
        # sensor.
        self.param_groups = [{"params": weights}]
        self.state = defaultdict(dict)
        self.defaults = {}


class Studies:
    """Studies the passes of one watch, a few of each structure."""

    def __init__(
        self,
        host: Host,
        passes: PassBook,
        budget: Budget,
        asking: Asking,
        loop: LoopLedger,
        optimizers: OptimizerLedger,
        weights: WeightLedger,
        units: UnitLedger,
        batches: BatchLedger,
    ) -> None:
        self.host = host
        self.passes = passes
        self.by_hand: ByHand | None = None
        """In a program without an optimizer."""
        self._budget = budget
        self._asking = asking
        self._loop = loop
        self._optimizers = optimizers
        self._weights = weights
        self._units = units
        self._batches = batches
        self._asked: set[object] = set()
        self._made: dict[int, int] = {}
        """The number of studied passes, by structure."""
        self._lines: set[frozenset[Site | None]] = set()
        """The lines of the studied passes."""
        self._leaf_losses: list[tuple[Value, tuple[Site, ...]]] = []
        self._within: tuple[Optimizer, OptimizerEntry, tuple[Site, ...]] | None = None
        """The first step within the current backward."""

    def backward_began(self, losses: list[torch.Tensor]) -> None:
        """Record losses without a graph, where they are not weights."""
        owned = self._optimizers.owned()
        self._leaf_losses = [
            (self.passes.tape.value_of(leaf), user_stack(sys._getframe(1)))
            for each in losses
            for leaf in loose_leaves(each, owned)
        ]

    def before_update(
        self, optimizer: Optimizer, entry: OptimizerEntry, stack: tuple[Site, ...]
    ) -> None:
        """Study the pass, whose gradients the update uses next."""
        now = self.passes.current
        if now.recorded and now.backwards:
            self._study(optimizer, entry, stack, NONE_GIVEN)

    # Steps within a backward.

    def begins_within(
        self, optimizer: Optimizer, entry: OptimizerEntry, stack: tuple[Site, ...]
    ) -> None:
        """Postpone the study until all gradients of the pass exist."""
        self._within = self._within or (optimizer, entry, stack)

    def forget_within(self) -> None:
        """Drop the study, because backward has failed and some gradients are missing."""
        self._within = None

    def ends_within(self) -> None:
        """Study the first of several steps within one backward, which stands for all."""
        within, self._within = self._within, None
        now = self.passes.current
        if within is not None and now.recorded and now.backwards and not now.is_gone:
            self._study(*within, now.used)

    # Loops without an optimizer.

    def before_update_by_hand(
        self, inputs: list[torch.Tensor], gradients: list[torch.Tensor]
    ) -> None:
        """Study the pass after its backward, the last known moment before its gradients are used.

        Requested gradients are not stored in the weights. Those with a graph belong to a later
        loss.
        """
        now = self.passes.current
        weights = inputs or [
            each for each in now.held.values() if each.requires_grad and each.is_leaf
        ]
        are_part = any(each.requires_grad for each in gradients) or not all(
            each.is_leaf for each in weights
        )
        if not now.recorded or not weights or are_part:
            return
        if self.by_hand is None:
            self.by_hand = ByHand(weights)
            self._optimizers.enter(self.by_hand, ())
        self.by_hand.param_groups = [{"params": weights}]
        entry = self._optimizers.entry_of(self.by_hand)
        entry.weights |= {id(each) for each in weights}
        given = {id(one): gradient for one, gradient in zip(inputs, gradients, strict=False)}
        self._study(self.by_hand, entry, user_stack(sys._getframe(1)), given)

    def forget_hand(self) -> None:
        """Drop the stand-in, because the program has an optimizer."""
        if self.by_hand is not None:
            self._optimizers.leave_out(self.by_hand)
            self.by_hand = None

    # One study.

    def _study(
        self,
        optimizer: Optimizer,
        entry: OptimizerEntry,
        stack: tuple[Site, ...],
        given: Mapping[int, torch.Tensor],
    ) -> None:
        if not all(map(is_readable, all_weights_of(optimizer))):
            return
        calls = tuple(call for call in self.passes.calls() if call.phase != "optimizer")
        held = self.passes.current.held.values()
        weights = frozenset(id(each) for each in held if each.requires_grad and each.is_leaf)
        structure = hash((weights, *((call.name, call.site, _mode_of(call)) for call in calls)))
        made = self._made.get(structure, 0)
        is_due = made < STUDIES_OF_ONE_KIND and self._may_study(
            structure, frozenset(call.site for call in calls)
        )
        if not is_due and self.host.step not in AUDITS:
            return
        study = self._study_of(calls, optimizer, entry, stack)
        study.given = given
        if self.host.step in AUDITS:
            # These checks replay calls as rules do, so their failures are recorded in the same way.
            looks = (
                ("gradient/dead-units", self._units.look),
                ("data/misaligned", self._batches.look),
            )
            self._asking.ask(looks, study)
        if is_due:
            self._made[structure] = made + 1
            self._weights.enter(_used(calls), self.host.step, study.gradient_of)
            self._name_unowned()
            rules = study_rules()
            with self._budget.spending(STEPS):
                self._asking.ask(rules, study, calls)
        del study
        give_back_after(calls)

    def _may_study(self, structure: int, lines: frozenset[Site | None]) -> bool:
        """Whether to study: first structures once, more of them as the budget allows.

        A step counts as skipped only if no step with the same lines was studied, even with other
        weights or in another order.
        """
        if structure in self._made:
            return self._budget.has_room(STEPS)
        if lines in self._lines:
            return len(self._made) < MOST_STRUCTURES and self._has_room_for_more(self._made)
        if len(self._lines) < MOST_STRUCTURES and self._has_room_for_more(self._lines):
            self._lines.add(lines)
            self._budget.take_in(STEPS, lines)
            return True
        self._budget.leave_out(STEPS, lines)
        return False

    def _has_room_for_more(self, studied: Sized) -> bool:
        return len(studied) < FREE_STRUCTURES or self._budget.has_room(STEPS)

    def _study_of(
        self,
        calls: tuple[Call, ...],
        optimizer: Optimizer,
        entry: OptimizerEntry,
        stack: tuple[Site, ...],
    ) -> Study:
        return Study(
            **self.host.scene(user_frames(sys._getframe(1))),
            now=self.passes.current,
            step=self.host.step,
            stack=stack,
            calls=calls,
            losses=losses_of(calls, self.host.losses()),
            course=self.host.losses(),
            leaf_losses=self._leaf_losses,
            optimizer=optimizer,
            entry=entry,
            built=self._optimizers.entries,
            loop=self._loop,
            told=self._asking.told,
            asked=self._asked,
        )

    def _name_unowned(self) -> None:
        """Record the names of weights that a final finding may need, while the model is alive.

        A few other weights are named too: they show whose weights the optimizers have.
        """
        owned = self._optimizers.owned()
        entries = [each for each in self._weights.entries() if not each.name]
        loose = [each for each in entries if id(each.weight) not in owned or not each.gradients]
        others = (each for each in entries if id(each.weight) in owned and each.gradients)
        for entry in (*loose, *islice(others, A_FEW if loose else 0)):
            if (weight := entry.weight) is not None:
                entry.name = self.host.name_of(weight)


def _mode_of(call: Call) -> bool | None:
    return call.module.training if isinstance(call.module, Scope) else None


def _used(calls: Sequence[Call]) -> Iterator[tuple[torch.Tensor, Call, bool]]:
    """The weights of a pass, each with the first call that used it, preferably with gradients."""
    seen: set[int] = set()
    for call in sorted(calls, key=lambda each: not each.grad_mode):
        if call.phase not in ("forward", "program") or call.inner:
            continue
        for value in call.operands:
            tensor = value.tensor
            if (
                tensor is None
                or id(tensor) in seen
                or not tensor.requires_grad
                or not tensor.is_leaf
                or tensor.is_meta
            ):
                continue
            seen.add(id(tensor))
            module = getattr(call.module, "module", None)
            yield tensor, call, bool(getattr(module, "training", True))
