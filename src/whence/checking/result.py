"""Results of checks as plain data, for the table and for JSON. Nothing here imports torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from whence.version import VERSION

SCHEMA = 1


class Outcome(StrEnum):
    PASSED = "passed"
    WARNING = "warning"
    FAILED = "failed"
    UNCHECKED = "could-not-check"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's program."""

    file: str
    line: int
    code: str


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its outcome.

    `measured` is one line; why, fix and place are set if something is wrong.
    """

    name: str
    outcome: Outcome
    measured: str
    why: str = ""
    fix: str = ""
    place: Place | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


class CheckFailed(AssertionError):
    """Raised by `raise_if_failed`; its text is the report."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """True if no check failed. Warnings and checks that were not made do not count."""
        return not self.having(Outcome.FAILED)

    def having(self, outcome: Outcome) -> tuple[Check, ...]:
        return tuple(each for each in self.checks if each.outcome is outcome)

    def __getitem__(self, name: str) -> Check:
        for each in self.checks:
            if each.name == name:
                return each
        raise KeyError(
            f"no check named {name!r}; expected one of "
            f"{', '.join(each.name for each in self.checks)}"
        )

    @property
    def headline(self) -> str:
        failed, warned = len(self.having(Outcome.FAILED)), len(self.having(Outcome.WARNING))
        unchecked = len(self.having(Outcome.UNCHECKED))
        made = len(self.checks) - unchecked
        said = (
            f"{failed} of {len(self.checks)} checks failed"
            if failed
            else f"{made} checks, none failed"
        )
        if warned:
            said += f", {warned} warning{'s' if warned > 1 else ''}"
        if unchecked:
            said += f", {unchecked} not made"
        return f"whence check: {said}"

    def raise_if_failed(self) -> None:
        if not self.ok:
            raise CheckFailed(str(self))

    def to_json(self) -> dict[str, Any]:
        """Build the document that tools rely on (schema 1)."""
        return {
            "schema": SCHEMA,
            "whence": VERSION,
            "ok": self.ok,
            "checks": [
                {**asdict(each), "notes": list(each.notes), "seconds": round(each.seconds, 4)}
                for each in self.checks
            ],
        }

    def __str__(self) -> str:
        from whence.checking.table import as_text

        return as_text(self)
