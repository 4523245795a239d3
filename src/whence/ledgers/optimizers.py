"""The ledger of optimizers: which were built, their weights, and their step counts."""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import torch
from torch import nn
from torch.optim import Optimizer

from whence.ledgers.facts import all_weights_of, memory_of
from whence.ledgers.loop import Kind, LoopLedger, OptimizerEntry
from whence.source.sites import Site
from whence.tape.trip import RateTrial
from whence.weak_table import WeakTable

MOST = 256
CLIMBS = 6


class OptimizerLedger:
    """Optimizers, bounded; none is kept alive."""

    def __init__(self, loop: LoopLedger) -> None:
        self.entries: list[OptimizerEntry] = []
        self._known: WeakTable[Optimizer, OptimizerEntry] = WeakTable()
        """By optimizer: there may be one per weight, and each is looked up in every step."""
        self._loop = loop

    def built(self, optimizer: Optimizer, stack: tuple[Site, ...], modules: int) -> None:
        """Record an optimizer, built after this number of modules."""
        before = next(
            (each for each in reversed(self.entries) if each.stack[:1] == stack[:1] and each.steps),
            None,
        )
        entry = self.enter(optimizer, stack)
        entry.modules = modules
        self._note_loaded(entry, optimizer)
        entry.untouched = (
            before is not None
            and before.weights == entry.weights
            and before.version == entry.version
            and before.stateful
            and not before.has_run_down()
        )
        for old in self.entries[:-MOST]:
            if (one := old.optimizer) is not None:
                self._known.pop(one)
        del self.entries[:-MOST]

    def entry_of(self, optimizer: Optimizer) -> OptimizerEntry:
        """The entry of an optimizer; one built before the watch began gets a new entry."""
        known = self._known.get(optimizer, None)
        if known is None:
            known = self.enter(optimizer, ())
            self._note_loaded(known, optimizer)
        return known

    def enter(self, optimizer: Optimizer, stack: tuple[Site, ...]) -> OptimizerEntry:
        weights = frozenset(id(each) for each in all_weights_of(optimizer))
        kind, groups = type(optimizer).__name__, len(optimizer.param_groups)
        entry = OptimizerEntry(weakref.ref(optimizer), kind, stack, weights, groups)
        entry.version = _version(optimizer)
        entry.settings = tuple(_settings(optimizer))
        self.entries.append(entry)
        self._known[optimizer] = entry
        return entry

    def leave_out(self, optimizer: Optimizer) -> None:
        self.entries = [each for each in self.entries if each.ref() is not optimizer]
        self._known.pop(optimizer)

    def count_step(self, optimizer: Optimizer) -> OptimizerEntry:
        entry = self.entry_of(optimizer)
        self.count(entry, optimizer)
        return entry

    def count(self, entry: OptimizerEntry, optimizer: Optimizer) -> None:
        entry.steps += 1
        groups = optimizer.param_groups
        if len(groups) != entry.groups:
            entry.groups = len(groups)
            entry.weights |= {id(each) for each in all_weights_of(optimizer)}
            self._note_loaded(entry, optimizer)
        rate = groups[0].get("lr") if groups else None
        # In most steps this is the same object as in the step before.
        if rate is not entry.usual_rate and isinstance(rate, float | int):
            entry.note_rate(rate)

    def updated(self, optimizer: Optimizer) -> None:
        """Record the end of a step, the only event of a step that torch.compile runs."""
        entry = self.entry_of(optimizer)
        entry.steps = entry.steps or 1
        entry.stateful = entry.stateful or _is_stateful(optimizer)
        entry.version = _version(optimizer)

    def has_newcomer(self) -> bool:
        """Whether an optimizer has made only one step, so a second one is worth waiting for."""
        return any(each.steps == 1 and each.optimizer is not None for each in self.entries)

    def updates_of(self, optimizer: Optimizer) -> int:
        """The number of steps of an optimizer.

        A wrapper, such as accelerate's, shares the parameter groups of the optimizer that steps.
        """
        groups = optimizer.param_groups
        return max(
            (
                each.steps
                for each in self.entries
                if (one := each.optimizer) is not None and one.param_groups is groups
            ),
            default=0,
        )

    def tests_rates(self, optimizer: Optimizer) -> bool:
        """Whether a range test is under way."""
        return self.entry_of(optimizer).climb.times >= CLIMBS

    def keeps_rate(self, optimizer: Optimizer) -> bool:
        """Whether this is the only optimizer that steps, always with its current learning rate."""
        stepping = [each for each in self.entries if each.steps]
        rate = optimizer.param_groups[0]["lr"]
        return stepping == [self.entry_of(optimizer)] and stepping[0].rates == (rate, rate)

    def overshot(self, optimizer: Optimizer, trial: RateTrial | None) -> None:
        entry = self.entry_of(optimizer)
        entry.overshot = entry.overshot or trial

    def owned(self) -> frozenset[int]:
        """All weights that any optimizer has had, by identity."""
        return frozenset[int]().union(*(each.weights for each in self.entries))

    def weights(self) -> Iterator[torch.Tensor]:
        known = {
            id(each): each
            for entry in self.entries
            if (one := entry.optimizer)
            for each in all_weights_of(one)
        }
        return (each for each in known.values() if not each.is_meta)

    def age(self) -> int:
        """A counter that advances when weights change.

        PyTorch counts changes in place, but not those that fused optimizers make.
        """
        return sum(each._version for each in self.weights()) + sum(
            each.steps for each in self.entries
        )

    def owners_of(self, module: nn.Module) -> list[OptimizerEntry]:
        own = set(memory_of(nn.Module.parameters(module)))
        there = ((each, one) for each in self.entries if (one := each.optimizer) is not None)
        return [each for each, one in there if not own.isdisjoint(memory_of(all_weights_of(one)))]

    def _note_loaded(self, entry: OptimizerEntry, optimizer: Optimizer) -> None:
        """Link loaded modules to an optimizer while both are alive, since ids are reused."""
        own = set(memory_of(all_weights_of(optimizer)))
        for event in self._loop.events:
            module = (
                event.subject() if event.kind is Kind.LOAD and event.subject is not None else None
            )
            if module is None or entry in event.detail["owners"]:
                continue
            if not own.isdisjoint(memory_of(nn.Module.parameters(module))):
                event.detail["owners"].append(entry)


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
    return isinstance(state, dict) and any(
        isinstance(each, torch.Tensor) and each.dim() for each in state.values()
    )
