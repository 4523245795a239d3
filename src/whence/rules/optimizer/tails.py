"""Gradients that are left over at the end of an epoch, and cleared at the start of the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind, OptimizerEntry
from whence.rules.telling import spot_at, tell_silent
from whence.source.sites import Site

ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Tail:
    """Backward passes that were added up for a step that did not come."""

    lost: int
    made: int
    """All of them since the line was last passed that clears them."""
    largest: int
    """The most that a step has used meanwhile."""
    backward: Event
    clear: Event


def tail_dropped(audit: Audit, entry: OptimizerEntry) -> Finding | None:
    """Accumulation that does not come out even, and a zero_grad before each epoch."""
    for site in {each.site for each in audit.loop.of(Kind.CLEAR)}:
        if site is None or not _is_passed_first(audit, site):
            continue
        tails = list(_tails(audit, entry, site))
        if len(tails) < (2 if audit.final else ENOUGH) or len({each.made for each in tails}) != 1:
            continue
        if any(not 0 < each.lost < each.largest for each in tails):
            continue
        last = tails[-1]
        return tell_silent(
            audit,
            "optimizer/discarded-gradient",
            spot=spot_at(site),
            symptom=spot_at(last.backward.site),
            step=last.clear.step,
            op="zero_grad",
            phase="backward",
            # Some mean it so: the last, smaller group is left out as a last, smaller batch is.
            severity=Severity.INFO,
            confidence=Confidence.LIKELY,
            verdict=f"the last {last.lost} of {last.made} backward passes of each epoch are thrown away: zero_grad comes before their step",
            what=f"{last.largest} passes make a step, and {last.lost} are left over",
            why="Steps are made for whole groups of batches only; what is left over at the end of an epoch is cleared at the start of the next.",
            fix="Step for what is left over as well: in the last batch of the loop, or behind the loop.",
        )
    return None


def _is_passed_first(audit: Audit, site: Site) -> bool:
    """Before anything was computed: who clears what is bad, or what was used, has no reason to do so there."""
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
