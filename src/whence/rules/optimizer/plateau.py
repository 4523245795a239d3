"""ReduceLROnPlateau with the wrong mode: it treats an improving metric as a plateau."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import combinations

from whence.ledgers.audit import Audit
from whence.ledgers.schedules import Schedule
from whence.source.edits import diff_of, give_by_name

FEWEST = 5
RECORDS = 3
MOST_COUNTED = 5000
"""Samples in an evaluation: above this, shares are hard to distinguish from other values."""
EXACT = 1e-7
RISEN = 1.05
STEADY = 0.7
HALF = 0.5
GROWN, FALLEN = 1.1, 0.75
"""The last metrics relative to the first."""


def correct_mode(audit: Audit, story: Schedule) -> str:
    """The correct mode, if the metric moved against the current one while training succeeded."""
    metrics = list(story.metrics)
    if story.mode not in ("min", "max") or len(metrics) < FEWEST or story.last >= story.first:
        return ""
    rising = [each if story.mode == "min" else -each for each in metrics]
    if min(rising[2:]) <= min(rising[:2]) or not _rise(rising) or _has_risen(audit.losses):
        return ""
    end = sum(metrics[-RECORDS:]) / RECORDS
    # When a model overfits, a validation loss or error rate may rise from the first epoch on, and a
    # score may fall slightly. But a share above one half is hardly an error rate, and a value that
    # falls this far is hardly a score.
    if story.mode == "min":
        return (
            "max"
            if end > max(GROWN * metrics[0], HALF * _whole(metrics)) and _are_shares(metrics)
            else ""
        )
    return (
        "min"
        if 0 < end < FALLEN * metrics[0] and min(metrics) > 0 and not _are_shares(metrics)
        else ""
    )


def _rise(numbers: Sequence[float]) -> bool:
    """Whether values set new records, and later values are mostly above earlier ones."""
    records = sum(each > max(numbers[:place]) for place, each in enumerate(numbers) if place)
    pairs = [later > earlier for earlier, later in combinations(numbers, 2)]
    return records >= RECORDS and sum(pairs) >= STEADY * len(pairs)


def _has_risen(losses: Sequence[float]) -> bool:
    known = list(losses)
    third = len(known) // 3
    return third == 0 or sum(known[-third:]) > RISEN * sum(known[:third])


def _whole(numbers: Sequence[float]) -> float:
    return 1.0 if max(numbers) <= 1 else 100.0


def _are_shares(numbers: Sequence[float]) -> bool:
    """Whether all values are shares, or percentages, of one count."""
    few = sorted({each for each in numbers if each not in (0.0, 1.0, 100.0)})[:8]
    if len(few) < RECORDS or not all(0 <= each <= 100 for each in few):
        return False
    shares = [each / _whole(numbers) for each in few]
    return any(
        all(abs(each * count - round(each * count)) <= EXACT * count for each in shares)
        for count in range(2, MOST_COUNTED)
    )


def other_mode(story: Schedule, mode: str) -> str | None:
    """A diff to the other mode, if the scheduler's mode is a literal or the default."""
    call = story.built[0].node() if story.built else None
    if not isinstance(call, ast.Call) or len(call.args) > 1:
        return None
    given = next((each.value for each in call.keywords if each.arg == "mode"), None)
    if any(each.arg is None for each in call.keywords) or not (
        given is None or isinstance(given, ast.Constant)
    ):
        return None
    return diff_of(give_by_name(story.built[0].filename, call, "mode", f'"{mode}"'))
