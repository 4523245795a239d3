"""The ledger of schedules: the steps of each scheduler, its updates and epochs, and its rates."""

from __future__ import annotations

import contextlib
import inspect
import weakref
from array import array
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from whence.ledgers.facts import chosen_rate, plan_in
from whence.lineage.loops.turns import Rounds, rounds_of
from whence.source.sites import Site, user_frames

MOST_SCHEDULES = 64
MOST_RATES = 2**16
MOST_METRICS = 256
GONE = 1e-3
"""Relative to the first learning rate: below this share nothing is learned."""


@dataclass(eq=False, slots=True)
class Schedule:
    """The history of one scheduler. It may have been freed."""

    ref: weakref.ref[Any]
    kind: str
    planned: int | None
    """The number of steps it was built for, where it has one."""
    swings: bool = False
    """Whether it rises again past its end."""
    steered: object = None
    """Its optimizer's weak reference, which identifies the optimizer even after it was freed."""
    formula: CodeType | None = None
    """The program's function for the learning rate, if there is one."""
    numbers: frozenset[int] = frozenset()
    """The integers this function refers to: the length of a warm-up or of the run."""
    chosen: float = 0.0
    """The optimizer's learning rate before any scheduler."""
    is_plain: bool = False
    """Whether it is PyTorch's own scheduler."""
    mode: str = ""
    """The direction of the metric it waits for: min, max."""
    metrics: array[float] = field(default_factory=lambda: array("d"))
    """The first metrics it received."""
    built: tuple[Site, ...] = ()
    stepped: tuple[Site, ...] = ()
    """Where it was last stepped."""
    steps: int = 0
    updates: int = 0
    """Updates of its optimizer since the scheduler was built."""
    accompanied: int = 0
    """Updates from the scheduler's first step on."""
    is_ahead: bool = False
    """Whether it stepped before its optimizer had made any step."""
    rounds: Rounds = field(default_factory=lambda: Rounds((), False))
    """The loops around its step."""
    passed: int = 0
    """The number of passes over a loader in which it was stepped."""
    rates: array[float] = field(default_factory=lambda: array("d"))
    """The first learning rates: the initial one, and one for each step."""
    mean: float = 0.0
    """The mean of all learning rates."""
    highest: float = 0.0
    last: float = 0.0
    gone: int = 0
    gone_since: int = 0
    """The program's step after which the learning rate was negligible."""
    rises: bool = False
    changed: int = 0
    """The last of its steps that changed the learning rate."""
    began: int = 0
    """The program's step in which it made its first step."""
    came_to: dict[str, int | float] = field(default_factory=dict)
    """The plain numbers of its state after its first step."""
    _noted: int = 0
    _before: int = 0
    _began: int = 0
    _epoch: int = 0

    @property
    def first(self) -> float:
        return self.rates[0] if self.rates else 0.0

    @property
    def epochs(self) -> int | None:
        """The epochs during its steps, as counted by the loader or by the loops around the step."""
        return self.passed if self.passed > 1 else self.rounds.outer(self.steps)

    def note(self, rate: float, step: int) -> None:
        if self.rates and rate != self.last:
            self.rises = self.rises or rate > self.last
            self.changed = self.steps
        if len(self.rates) < MOST_RATES:
            self.rates.append(rate)
        if rate < GONE * self.first:
            self.gone_since = self.gone_since or step
            self.gone += 1
        self._noted += 1
        self.mean += (rate - self.mean) / self._noted
        self.highest, self.last = max(self.highest, rate), rate


class ScheduleLedger:
    """Schedulers, bounded; none is kept alive."""

    def __init__(self) -> None:
        self.known: list[Schedule] = []

    def note(
        self,
        scheduler: Any,
        stack: tuple[Site, ...],
        frame: FrameType,
        *,
        step: int,
        updates: int,
        epoch: int,
        metric: float | None = None,
    ) -> None:
        """Record the learning rate that a scheduler has set, at construction or by a step.

        `epoch` is the number of the epoch of the last batch.
        """
        found = self._of(scheduler)
        rate = _rate(scheduler)
        if rate is None:
            return
        if getattr(scheduler, "last_epoch", None) == 0 and not found.steps:
            # A scheduler makes its first step in its constructor.
            found.built, found._before = stack, updates
        else:
            if not found.steps:
                found.rounds, found._began = rounds_of(stack, user_frames(frame)), updates - 1
                found.began, found.came_to = step, plan_in(vars(scheduler))
                found.is_ahead = updates == found._before
            found.steps += 1
            found.stepped = stack
            found.updates, found.accompanied = updates - found._before, updates - found._began
            if metric is not None and len(found.metrics) < MOST_METRICS:
                found.metrics.append(metric)
            found.passed += epoch != found._epoch
            found._epoch = epoch
        found.note(rate, step)

    def of(self, optimizer: object) -> Schedule | None:
        """The first schedule of an optimizer, found by its weak reference."""
        return next((each for each in self.known if each.steered is optimizer), None)

    def is_under_way(self, scheduler: Any) -> bool:
        """Whether it has been stepped before."""
        known = self._known(scheduler)
        return known is not None and known.steps > 0

    def _known(self, scheduler: Any) -> Schedule | None:
        return next((each for each in reversed(self.known) if each.ref() is scheduler), None)

    def _of(self, scheduler: Any) -> Schedule:
        known = self._known(scheduler)
        if known is not None:
            return known
        optimizer = getattr(scheduler, "optimizer", None)
        formulas = list(getattr(scheduler, "lr_lambdas", ()))
        made = Schedule(
            weakref.ref(scheduler),
            type(scheduler).__name__,
            _planned(scheduler),
            _swings(scheduler),
            weakref.ref(optimizer) if optimizer is not None else None,
            next((each.__code__ for each in formulas if isinstance(each, FunctionType)), None),
            frozenset(number for each in formulas for number in _numbers_of(each)),
            _chosen(optimizer),
            type(scheduler).__module__ == "torch.optim.lr_scheduler",
            str(getattr(scheduler, "mode", "")),
        )
        self.known.append(made)
        del self.known[:-MOST_SCHEDULES]
        return made


def _numbers_of(formula: Any) -> set[int]:
    """The integers a function refers to: closures, globals, defaults, partials, attributes."""
    known: list[Any] = []
    while isinstance(formula, partial):
        known += [*formula.args, *formula.keywords.values()]
        formula = formula.func
    if isinstance(formula, MethodType):
        formula, owner = formula.__func__, formula.__self__
        known += getattr(owner, "__dict__", {}).values()
    if isinstance(formula, FunctionType):
        # A closure variable may be unbound.
        with contextlib.suppress(ValueError):
            names = inspect.getclosurevars(formula)
            known += [*names.nonlocals.values(), *names.globals.values()]
        known += formula.__defaults__ or ()
    else:
        known += getattr(formula, "__dict__", {}).values()
    return {each for each in known if type(each) is int}


def _chosen(optimizer: Any) -> float:
    groups = optimizer.param_groups if optimizer is not None else ()
    return (chosen_rate(groups[0]) if groups else None) or 0.0


def _rate(scheduler: Any) -> float | None:
    optimizer = getattr(scheduler, "optimizer", None)
    groups = optimizer.param_groups if optimizer is not None else ()
    rate = groups[0].get("lr") if groups else None
    try:
        return float(rate) if rate is not None else None
    except (TypeError, ValueError):
        return None


def _parts(scheduler: Any) -> list[Any]:
    """The consecutive parts of a composed scheduler."""
    parts, starts = getattr(scheduler, "_schedulers", None), getattr(scheduler, "_milestones", None)
    return (
        list(parts)
        if isinstance(parts, list) and parts and isinstance(starts, list) and starts
        else []
    )


def _swings(scheduler: Any) -> bool:
    """Whether it rises again past its end."""
    last = (_parts(scheduler) or [scheduler])[-1]
    return type(last).__name__ == "CosineAnnealingLR"


def _planned(scheduler: Any) -> int | None:
    if parts := _parts(scheduler):
        last = _planned(parts[-1])
        return scheduler._milestones[-1] + last if last is not None else None
    found = [getattr(scheduler, name, None) for name in ("total_steps", "T_max")]
    return next((each for each in found if type(each) is int), None)
