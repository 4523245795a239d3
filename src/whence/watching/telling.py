"""What is asked about something that is not finite, and what is no longer told: what follows from what was told before."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

import torch

from whence.finding import Finding, Severity
from whence.lineage.looking import names_of
from whence.source.sites import user_frames
from whence.tape.handles import handles_in
from whence.tape.replay import trouble_in
from whence.tape.trip import Consequence, Trip
from whence.watching.diagnosing import Diagnoser

MOST_DIAGNOSES = 12
MOST_ALIKE = 3
"""A loss that is NaN in step after step, with gradients that are finite: after so many of the same origin it is the same."""

T = TypeVar("T")


class Host(Protocol):
    def diagnose(self, ask: Callable[[], T]) -> T: ...
    def record_next_step(self, why: str) -> None: ...


class Telling:
    def __init__(self, host: Host, diagnoser: Diagnoser) -> None:
        self.diagnoser = diagnoser
        self.cause: Finding | None = None
        """What was told already, and ends in something that is not finite: an explosion, memory that nobody wrote."""
        self.is_over = False
        """There is nothing more to be said of it."""
        self.labels: dict[int, str] = {}
        """Names of weights that no module has, by identity."""
        self._host = host
        self._lost: list[weakref.ref[torch.Tensor]] = []
        """Weights that a bad gradient was applied to: what follows from that is not told again."""
        self._count = 0
        self._rules: set[str] = set()
        self._alike: list[Finding] = []
        """What the last reports came to, as long as all of them came to one origin."""

    def begin_anew(self) -> None:
        self._count, self._lost, self.cause, self.is_over, self._rules = 0, [], None, False, set()
        self._alike = []

    # asking

    def may_ask(self) -> bool:
        return self._count < MOST_DIAGNOSES and not self.is_over

    def ask(self, trip: Trip) -> list[Finding]:
        self._count += 1
        if self._count > MOST_DIAGNOSES or self.is_over or self._are_still_lost():
            return []
        is_report = trip.consequence is Consequence.REPORTED
        if is_report and len(self._alike) >= MOST_ALIKE:
            return self._alike[-1:]
        found = self._host.diagnose(lambda: self.diagnoser.diagnose(trip))
        if is_report and found:
            self._alike = [*(each for each in self._alike if _is_alike(each, found[0])), found[0]]
        if self.cause is not None and found and not found[0].rule.startswith("data/"):
            self.is_over = True
            return [follows(each, self.cause) for each in found]
        if not found and trip.could_not and not trip.now.recorded and trip.observed is not None:
            self._host.record_next_step(trip.could_not)
        if trip.consequence is Consequence.ENDED and trip.exception is None:
            # The program is over, and its last loss is like others before: those were led further back, as more was there.
            found = [each for each in found if each.rule not in self._rules]
        self._rules |= {each.rule for each in found}
        return found

    def asked_elsewhere(self) -> None:
        self._count += 1

    def names(self, weights: Iterable[torch.Tensor]) -> list[str]:
        """Weights as the user knows them: by their place in a model, or by a variable."""
        frames = user_frames(sys._getframe(1))
        return [
            self.labels.get(id(each))
            or self.diagnoser.modules.name_of(each)
            or next((name for name, _ in names_of(each, frames)), "")
            or next(
                (
                    handle.text
                    for frame in frames
                    for handle, held in handles_in(frame)
                    if held is each
                ),
                "",
            )
            or f"a weight of shape {tuple(each.shape)}"
            for each in weights
        ]

    # what was told

    def expect(self, cause: Finding) -> None:
        self.cause = self.cause or cause

    def mark_lost(self, weights: Iterable[torch.Tensor]) -> None:
        self._lost = [weakref.ref(each) for each in weights]

    @property
    def has_lost(self) -> bool:
        """Whether weights were told to be lost."""
        return bool(self._lost)

    def _are_still_lost(self) -> bool:
        """A program may load better ones."""
        lost = any(trouble_in(each) for ref in self._lost if (each := ref()) is not None)
        if not lost:
            self._lost = []
        return lost

    def milder(self, how: Callable[[Finding], Finding], findings: list[Finding]) -> list[Finding]:
        """The same findings in another voice, each with its repro."""
        repros = self.diagnoser.repros
        told = [(how(each), each) for each in findings]
        for mild, each in told:
            repros[mild] = repros.pop(each, None)
        return [mild for mild, _ in told]


def _is_alike(one: Finding, other: Finding) -> bool:
    places = [(each.rule, each.origin.file, each.origin.line) for each in (one, other)]
    return places[0] == places[1]


def follows(finding: Finding, cause: Finding) -> Finding:
    """What comes of something that was told already is said once, and quietly."""
    why = f"It follows from {cause.rule} ({cause.verdict}). {finding.why}"
    return replace(
        finding, severity=Severity.INFO, why=why, fix=f"Mend {cause.rule} first.", patch=None
    )


def as_skipped(finding: Finding) -> Finding:
    """The program saw it and went on without it: no weight was harmed."""
    severity = Severity.INFO if finding.rule == "nonfinite/overflow" else Severity.WARNING
    return replace(finding, severity=min(severity, finding.severity, key=lambda each: each.rank))


def as_known(finding: Finding) -> Finding:
    """The program looks for it itself, and trains on what is left."""
    return replace(finding, severity=Severity.INFO)
