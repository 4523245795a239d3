"""Run rules on a scene and report what they find, each finding once."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from whence.finding import Finding, described
from whence.rerun.child import NotPossible, run_where_safe
from whence.rerun.permission import refusals, with_gap
from whence.source.interrupts import is_interrupt
from whence.tape.native import runs_only_torch
from whence.tape.tape import Call

Rule = Callable[[Any], Finding | None]


class Host(Protocol):
    def say(self, findings: list[Finding]) -> None: ...
    def trouble(self, what: str) -> None: ...


class Asking:
    """Runs the rules of one watch."""

    def __init__(self, host: Host) -> None:
        self.told: set[str] = set()
        """Rules that have reported."""
        self._host = host
        self._surfaced: set[tuple[str | int, ...]] = set()
        """Reported findings by place and by verdict: the same rule adds nothing there."""

    def ask(
        self, rules: Iterable[tuple[str, Rule]], scene: Any, calls: Iterable[Call] = ()
    ) -> list[Finding]:
        """Run rules on a scene.

        They may replay these calls, in a child process if one is the program's own.
        """
        try:
            answers, troubles = run_where_safe(calls, lambda: _answers(rules, scene))
        except NotPossible as reason:
            names = sorted({call.name for call in calls if not runs_only_torch(call.func)})
            self._host.trouble(f"silent mistakes in steps with {', '.join(names)} ({reason})")
            return []
        for trouble in troubles:
            self._host.trouble(trouble)
        return [found for id, found in answers if self._says(id, found)]

    def _says(self, id: str, found: Finding) -> bool:
        """Report a finding unless it was reported before."""
        self.told.add(id)
        # A later run of the rule, with less of the program alive, may find another line for it.
        surfaced = {(id, found.symptom.file, found.symptom.line), (id, found.verdict)}
        is_new = not surfaced & self._surfaced
        if is_new:
            self._host.say([found])
        self._surfaced |= surfaced
        return is_new


def _answers(
    rules: Iterable[tuple[str, Rule]], scene: Any
) -> tuple[list[tuple[str, Finding]], list[str]]:
    """The findings of the rules, and the rules that failed."""
    found: list[tuple[str, Finding]] = []
    troubles: list[str] = []
    for id, rule in rules:
        before = refusals()
        try:
            answer = rule(scene)
        except Exception as error:
            if is_interrupt(error):
                raise
            troubles.append(f"{id} failed ({described(error).splitlines()[0]})")
            if "WHENCE_DEBUG" in os.environ:
                traceback.print_exc()
            continue
        if answer is not None:
            found.append((id, with_gap(answer, before)))
            if (told := getattr(scene, "told", None)) is not None:
                # Later rules may yield to this one.
                told.add(id)
    return found, troubles
