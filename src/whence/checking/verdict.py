"""The result of a single check; the engine adds its name and time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from whence.checking.result import Outcome, Place

MOST_NAMES = 6


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    measured: str
    why: str = ""
    fix: str = ""
    place: Place | None = None
    notes: tuple[str, ...] = ()


def passed(measured: str, notes: Iterable[str] = ()) -> Verdict:
    return Verdict(Outcome.PASSED, measured, notes=tuple(notes))


def unchecked(reason: str, notes: Iterable[str] = ()) -> Verdict:
    return Verdict(Outcome.UNCHECKED, reason, notes=tuple(notes))


def failed(
    measured: str, *, why: str, fix: str, place: Place | None = None, notes: Iterable[str] = ()
) -> Verdict:
    return Verdict(Outcome.FAILED, measured, why, fix, place, tuple(notes))


def warning(
    measured: str, *, why: str, fix: str, place: Place | None = None, notes: Iterable[str] = ()
) -> Verdict:
    return Verdict(Outcome.WARNING, measured, why, fix, place, tuple(notes))


def listed(names: Sequence[str]) -> str:
    """List some names, and the number of the others."""
    shown = ", ".join(names[:MOST_NAMES])
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
