"""Gradients of an incomplete accumulation window that the next epoch clears."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind, OptimizerEntry
from whence.rules.telling import silent_finding, spot_at
from whence.source.sites import Site

ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Tail:
    """Backward passes that were accumulated for a step that never came."""

    lost: int
    made: int
    """All backward passes since the clearing line last ran."""
    largest: int
    """The most that one step has used in that time."""
    backward: Event
    clear: Event


def tail_dropped(audit: Audit, entry: OptimizerEntry) -> Finding | None:
    """Report an incomplete accumulation window that zero_grad clears before each epoch."""
    for site in {each.site for each in audit.loop.of(Kind.CLEAR)}:
        if site is None or not _is_passed_first(audit, site):
            continue
        tails = list(_tails(audit, entry, site))
        if len(tails) < (2 if audit.final else ENOUGH) or len({each.made for each in tails}) != 1:
            continue
        if any(not 0 < each.lost < each.largest for each in tails):
            continue
        last = tails[-1]
        return silent_finding(
            audit,
            "optimizer/discarded-gradient",
            spot=spot_at(site),
            symptom=spot_at(last.backward.site),
            step=last.clear.step,
            op="zero_grad",
            phase="backward",
            # It can be intended: the last window is dropped like a last, smaller batch.
            severity=Severity.INFO,
            confidence=Confidence.LIKELY,
            verdict=f"the last {last.lost} of {last.made} backward passes of each epoch are lost: "
            "zero_grad clears them before a step",
            what=f"{last.largest} passes make a step, and {last.lost} remain",
            why="A step runs only after a full accumulation window. The incomplete window at the "
            "end of an epoch is cleared at the start of the next.",
            fix="Also call optimizer.step() for the last, incomplete accumulation window: in the "
            "last iteration, or after the loop.",
        )
    return None


def _is_passed_first(audit: Audit, site: Site) -> bool:
    """Whether the line clears before anything was computed, so not because of bad gradients."""
    first = next(audit.loop.of(Kind.CLEAR, Kind.BACKWARD), None)
    return first is not None and first.kind is Kind.CLEAR and first.site == site


def _tails(audit: Audit, entry: OptimizerEntry, site: Site) -> Iterator[Tail]:
    made = pending = largest = 0
    backward: Event | None = None
    for event in audit.loop.of(Kind.BACKWARD, Kind.STEP, Kind.CLEAR):
        if event.kind is Kind.BACKWARD:
            if event.written & entry.weights:
                made, pending, backward = made + 1, pending + 1, event
        elif event.kind is Kind.STEP:
            if event.detail["entry"] is entry:
                largest, pending = max(largest, pending), 0
        elif event.site == site:
            if backward is not None:
                yield Tail(pending, made, largest, backward, event)
            made = pending = largest = 0
        elif event.written & entry.weights:
            pending = 0
