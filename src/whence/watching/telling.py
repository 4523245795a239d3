"""Diagnose non-finite values, and suppress what follows from findings that were reported."""

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
"""A loss may be NaN in every step with finite gradients: this many of one origin are diagnosed."""

T = TypeVar("T")


class Host(Protocol):
    def diagnose(self, ask: Callable[[], T]) -> T: ...
    def record_next_step(self, why: str) -> None: ...


class Telling:
    def __init__(self, host: Host, diagnoser: Diagnoser) -> None:
        self.diagnoser = diagnoser
        self.cause: Finding | None = None
        """A reported cause of non-finite values: an explosion, uninitialized memory."""
        self.is_over = False
        """Whether there is nothing more to report."""
        self.labels: dict[int, str] = {}
        """Names of weights that no module has, by identity."""
        self._host = host
        self._lost: list[weakref.ref[torch.Tensor]] = []
        """Weights that received a bad gradient: consequences are not reported again."""
        self._count = 0
        self._rules: set[str] = set()
        self._alike: list[Finding] = []
        """The last findings, as long as all of them have the same origin."""

    def begin_anew(self) -> None:
        self._count, self._lost, self.cause, self.is_over, self._rules = 0, [], None, False, set()
        self._alike = []

    # Diagnosis.

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
            # The last loss resembles earlier ones, which were traced further back while more was
            # alive.
            found = [each for each in found if each.rule not in self._rules]
        self._rules |= {each.rule for each in found}
        return found

    def asked_elsewhere(self) -> None:
        self._count += 1

    def names(self, weights: Iterable[torch.Tensor]) -> list[str]:
        """Weights under names the user knows: the path in a model, or a variable."""
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

    # Reported findings.

    def expect(self, cause: Finding) -> None:
        self.cause = self.cause or cause

    def mark_lost(self, weights: Iterable[torch.Tensor]) -> None:
        self._lost = [weakref.ref(each) for each in weights]

    @property
    def has_lost(self) -> bool:
        """Whether weights were reported as lost."""
        return bool(self._lost)

    def _are_still_lost(self) -> bool:
        """Whether the lost weights are still bad: a program may load better ones."""
        lost = any(trouble_in(each) for ref in self._lost if (each := ref()) is not None)
        if not lost:
            self._lost = []
        return lost

    def milder(self, how: Callable[[Finding], Finding], findings: list[Finding]) -> list[Finding]:
        """The same findings with lower severity, each with its repro."""
        repros = self.diagnoser.repros
        pairs = [(how(each), each) for each in findings]
        for mild, each in pairs:
            repros[mild] = repros.pop(each, None)
        return [mild for mild, _ in pairs]


def _is_alike(one: Finding, other: Finding) -> bool:
    places = [(each.rule, each.origin.file, each.origin.line) for each in (one, other)]
    return places[0] == places[1]


def follows(finding: Finding, cause: Finding) -> Finding:
    """Report a consequence of a reported finding as information."""
    why = f"This follows from {cause.rule} ({cause.verdict}). {finding.why}"
    return replace(
        finding, severity=Severity.INFO, why=why, fix=f"Fix {cause.rule} first.", patch=None
    )


def as_skipped(finding: Finding) -> Finding:
    """Lower the severity of what the program saw and skipped, which harmed no weight."""
    severity = Severity.INFO if finding.rule == "nonfinite/overflow" else Severity.WARNING
    return replace(finding, severity=min(severity, finding.severity, key=lambda each: each.rank))


def as_known(finding: Finding) -> Finding:
    """Lower the severity of what the program itself checks for, training on the rest."""
    return replace(finding, severity=Severity.INFO)
