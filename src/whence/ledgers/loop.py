"""The ledger of the loop: events on gradients, modes and learning rates, in order."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import torch
from torch.optim import Optimizer

from whence.source.sites import Site
from whence.tape.trip import RateTrial

MOST_EVENTS = 4096
RUN_DOWN = 0.1
GONE = 1e-3


class Kind(Enum):
    BACKWARD = auto()
    STEP = auto()
    EVALUATE = auto()
    """An optimizer calls its closure."""
    EVALUATED = auto()
    """The closure has returned."""
    CLEAR = auto()
    CLIP = auto()
    SCALE = auto()
    UNSCALE = auto()
    RESCALE = auto()
    SCHEDULE = auto()
    MODE = auto()
    STATE = auto()
    LOAD = auto()
    RESTORE = auto()
    READ = auto()
    SAVE = auto()
    BEGUN = auto()
    """The first update after a file was read, if no state was loaded in between."""
    CAST = auto()
    MOVED = auto()
    """A step changed a frozen weight."""
    LOST = auto()
    """A step of low-precision weights, with the number of elements it left unchanged."""


@dataclass(eq=False, slots=True)
class Event:
    """One action of the program. `subject` is the object it acted on."""

    kind: Kind
    step: int
    stack: tuple[Site, ...]
    subject: weakref.ref[Any] | None = None
    written: frozenset[int] = frozenset()
    """Weights whose gradients the event wrote, used or cleared, by identity."""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def site(self) -> Site | None:
        return self.stack[0] if self.stack else None

    def is_about(self, thing: Any) -> bool:
        return self.subject is not None and self.subject() is thing


@dataclass(eq=False, slots=True)
class Climb:
    """A learning rate raised by a constant factor in each step, as in a range test."""

    rate: float = 0.0
    factor: float = 0.0
    times: int = 0

    def note(self, rate: float) -> None:
        factor = rate / self.rate if self.rate > 0 else 0.0
        # Compared by the increase, since linear growth has factors that approach 1 and each other.
        is_same = factor > 1 and abs(factor - self.factor) < 1e-4 * (factor - 1)
        self.times = self.times + 1 if is_same else 0
        self.rate, self.factor = rate, factor if not is_same else self.factor


@dataclass(eq=False, slots=True)
class OptimizerEntry:
    """An optimizer: where it was built, its weights, and its step count. It may have been freed."""

    ref: weakref.ref[Optimizer]
    kind: str
    stack: tuple[Site, ...]
    weights: frozenset[int]
    """All weights it has had, by identity."""
    groups: int = 0
    modules: int = 0
    """The number of modules built before it."""
    settings: tuple[str, ...] = ()
    """Settings that make a step more than rate times gradient: `momentum=0.9`."""
    rates: tuple[float, ...] = ()
    """The smallest and the largest learning rate of its steps."""
    climb: Climb = field(default_factory=Climb)
    usual_rate: float | None = None
    """The last learning rate, where another step with the same rate adds no information."""
    gone: int = 0
    """Steps with less than a thousandth of the largest learning rate before them."""
    changes: int = 0
    """Steps with a different learning rate from the step before."""
    overshot: RateTrial | None = None
    """An update that raised the loss sharply, and would not have at a smaller learning rate."""
    steps: int = 0
    evaluates: bool = False
    """Its step receives a closure, which it may call several times."""
    stateful: bool = False
    """It keeps state from step to step: moments, momentum."""
    version: int = -1
    """The version of its first weight after its last step, or when it was built."""
    untouched: bool = False
    """No weight changed since the last step of the optimizer built at the same place before it."""

    @property
    def optimizer(self) -> Optimizer | None:
        return self.ref()

    def note_rate(self, rate: float) -> None:
        self.changes += rate != self.climb.rate
        if rate != self.climb.rate or self.climb.factor != 1.0:
            self.climb.note(rate)
            if rate not in self.rates:
                self.rates = min(rate, *self.rates, rate), max(rate, *self.rates, rate)
        is_gone = rate < GONE * self.rates[-1]
        self.gone += is_gone
        self.usual_rate = rate if self.climb.factor == 1.0 and not is_gone else None

    def has_run_down(self) -> bool:
        """Whether a scheduler has brought the rate near zero, so a new optimizer is a new cycle."""
        return bool(self.rates) and self.climb.rate <= RUN_DOWN * self.rates[-1]


class LoopLedger:
    """Events, bounded; nothing of the program is kept alive."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._seen: dict[int, tuple[int, int]] = {}
        self._held: list[Event] | None = None

    def hold(self) -> None:
        """Hold back events during a backward: hooks act on gradients that it has completed."""
        self._held = []

    def release(self) -> list[Event]:
        """The events held back, to be placed after the event of the backward itself."""
        held, self._held = self._held or [], None
        return held

    def note(
        self,
        kind: Kind,
        step: int,
        stack: tuple[Site, ...],
        subject: Any = None,
        written: Iterable[int] = (),
        **detail: Any,
    ) -> Event:
        ref = weakref.ref(subject) if subject is not None else None
        event = Event(kind, step, stack, ref, frozenset(written), detail)
        (self.events if self._held is None else self._held).append(event)
        return event

    def freshly_written(self, weights: Iterable[torch.Tensor]) -> frozenset[int]:
        """The weights whose gradients changed since the last call."""
        found = set()
        for weight in weights:
            gradient = weight.grad
            mark = (id(gradient), gradient._version if gradient is not None else -1)
            if gradient is not None and self._seen.get(id(weight)) != mark:
                found.add(id(weight))
            self._seen[id(weight)] = mark
        return frozenset(found)

    def of(self, *kinds: Kind) -> Iterator[Event]:
        return (each for each in self.events if each.kind in kinds)

    def story_of(self, entry: OptimizerEntry) -> list[Event]:
        """The events on the gradients of an optimizer's weights, in order."""
        return [
            each
            for each in self.of(Kind.BACKWARD, Kind.STEP, Kind.CLEAR, Kind.CLIP, Kind.UNSCALE)
            if (
                each.detail["entry"] is entry
                if each.kind is Kind.STEP
                else bool(each.written & entry.weights)
            )
        ]

    def states_kept(self) -> Iterator[list[Event]]:
        """States that are still alive, by the line and module they came from, one per step."""
        there: dict[tuple[Site | None, int], dict[int, Event]] = {}
        for event in self.of(Kind.STATE):
            reference, module = (
                event.detail["state"],
                event.subject() if event.subject is not None else None,
            )
            if module is not None and reference is not None and reference() is not None:
                there.setdefault((event.site, id(module)), {})[event.step] = event
        return (list(each.values()) for each in there.values())

    def states_among(self, identities: Iterable[int]) -> list[Event]:
        """The events that took the states with these identities, if they are still alive."""
        known = set(identities)
        kept = [(each, each.detail["state"]) for each in self.of(Kind.STATE) if known]
        return [
            each
            for each, ref in kept
            if ref is not None and (one := ref()) is not None and id(one) in known
        ]

    def last(self, kind: Kind, subject: Any) -> Event | None:
        return next(
            (
                each
                for each in reversed(self.events)
                if each.kind is kind and each.is_about(subject)
            ),
            None,
        )
