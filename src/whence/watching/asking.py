"""Asks rules about a scene, and says what they find; what was said already is not said again."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from whence.finding import Finding, described
from whence.tape.batches import is_from_a_signal


class Host(Protocol):
    def say(self, findings: list[Finding]) -> None: ...
    def trouble(self, what: str) -> None: ...


class Asking:
    """One for each watch."""

    def __init__(self, host: Host) -> None:
        self.told: set[str] = set()
        """Rules that have spoken."""
        self._host = host
        self._surfaced: set[tuple[str | int, ...]] = set()
        """What was told, and where that has shown itself: the same rule has nothing new to say there."""

    def ask(self, rules: Iterable[tuple[str, Callable[[Any], Finding | None]]], scene: Any) -> list[Finding]:
        told = []
        for id, rule in rules:
            try:
                found = rule(scene)
            except Exception as error:
                if is_from_a_signal(error):
                    raise
                self._host.trouble(f"{id} failed ({described(error).splitlines()[0]})")
                if "WHENCE_DEBUG" in os.environ:
                    traceback.print_exc()
                continue
            if found is None:
                continue
            self.told.add(id)
            # What is asked again later, when less of the program is left, may find another line for the same thing.
            surfaced = {(id, found.symptom.file, found.symptom.line), (id, found.verdict)}
            if not surfaced & self._surfaced:
                self._host.say([found])
                told.append(found)
            self._surfaced |= surfaced
        return told
