"""The ledger of schedules: how often each scheduler was stepped, for how many updates and epochs, and the rates it gave."""

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
"""Of the first rate: with less than that of it nothing is learnt any more."""


@dataclass(eq=False, slots=True)
class Schedule:
    """The story of one scheduler. It may be gone."""

    ref: weakref.ref[Any]
    kind: str
    planned: int | None
    """The steps that it was built for, where it has such a number."""
    swings: bool = False
    """It climbs back once it is past its end."""
    steered: object = None
    """Its optimizer, by the one weak reference that there is to it: it tells that also when it is gone."""
    formula: CodeType | None = None
    """The program's function that gives the rate, where there is one."""
    numbers: frozenset[int] = frozenset()
    """The whole numbers that this function knows: the length of a warm-up, of the run."""
    chosen: float = 0.0
    """The optimizer's rate before any schedule."""
    is_plain: bool = False
    """It is torch's own, and whoever steps it is seen to."""
    mode: str = ""
    """Which way a metric is to go that it waits for: min, max."""
    metrics: array[float] = field(default_factory=lambda: array("d"))
    """What it was given of it first."""
    built: tuple[Site, ...] = ()
    stepped: tuple[Site, ...] = ()
    """Where it was last stepped."""
    steps: int = 0
    updates: int = 0
    """What its optimizer has made since this was built."""
    accompanied: int = 0
    """Those of them from the scheduler's first step on."""
    is_ahead: bool = False
    """It made its first step before its optimizer had made any."""
    rounds: Rounds = field(default_factory=lambda: Rounds((), False))
    """The loops around its step."""
    passed: int = 0
    """Ways through a loader that it was stepped in."""
    rates: array[float] = field(default_factory=lambda: array("d"))
    """The first of them: what it was built with, and what each step gave."""
    mean: float = 0.0
    """Of all of them."""
    highest: float = 0.0
    last: float = 0.0
    gone: int = 0
    gone_since: int = 0
    """The step of the program after which the rate was gone."""
    rises: bool = False
    changed: int = 0
    """The last of its steps that changed the rate."""
    began: int = 0
    """The step of the program in which it made its first."""
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
        """How many the program made while this was stepped: as its loader has seen them, or as its loops are written."""
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
    """Bounded; keeps no scheduler alive."""

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
        """A scheduler has set a rate: while it was built, or by a step. `epoch` is the number of the one that the last batch came in."""
        found = self._of(scheduler)
        rate = _rate(scheduler)
        if rate is None:
            return
        if getattr(scheduler, "last_epoch", None) == 0 and not found.steps:
            # A schedule makes its first step while it is built.
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
        """The first schedule of an optimizer that is known by its weak reference."""
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
    """The whole numbers that a function was given where it was made: as variables around it, defaults, by partial, as its object's own."""
    known: list[Any] = []
    while isinstance(formula, partial):
        known += [*formula.args, *formula.keywords.values()]
        formula = formula.func
    if isinstance(formula, MethodType):
        formula, owner = formula.__func__, formula.__self__
        known += getattr(owner, "__dict__", {}).values()
    if isinstance(formula, FunctionType):
        # A variable around it may have no value yet.
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
    """What one scheduler is put together from, each going on where the one before it ended."""
    parts, starts = getattr(scheduler, "_schedulers", None), getattr(scheduler, "_milestones", None)
    return (
        list(parts)
        if isinstance(parts, list) and parts and isinstance(starts, list) and starts
        else []
    )


def _swings(scheduler: Any) -> bool:
    """Whether it climbs back once it is past its end."""
    last = (_parts(scheduler) or [scheduler])[-1]
    return type(last).__name__ == "CosineAnnealingLR"


def _planned(scheduler: Any) -> int | None:
    if parts := _parts(scheduler):
        last = _planned(parts[-1])
        return scheduler._milestones[-1] + last if last is not None else None
    found = [getattr(scheduler, name, None) for name in ("total_steps", "T_max")]
    return next((each for each in found if type(each) is int), None)
