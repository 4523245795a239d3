"""Buffers and optimizer state that stay NaN or Inf after a step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from whence.finding import Confidence, Finding, Hop, Sample
from whence.lineage.births import Contents
from whence.lineage.rows import blamed_rows, is_finite_outcome
from whence.rules.data.nonfinite import operation_of, source_of
from whence.rules.loss.endless import fell_without_bound
from whence.rules.nonfinite.forward import clamped, scenario_of
from whence.rules.nonfinite.telling import module_path, trip_finding
from whence.rules.rule import Rank, trip_rule
from whence.source.spots import Spot
from whence.tape.tape import Call
from whence.tape.trip import BadState, Notice, Trip


@trip_rule("nonfinite/state", Rank.CAUSE)
def state(trip: Trip) -> Finding | None:
    """A buffer or optimizer state became NaN or Inf and stays so after the bad batch.

    What happened
        BatchNorm's running statistics, or an optimizer's moments, absorbed a value that is not
        finite, or one whose square is not. Even if the program skips the batch's loss, the forward
        pass has already updated the statistics.
    Why it matters
        Training looks healthy because it uses the statistics of the batch; evaluation is NaN or
        constant from then on. A second moment of Inf never recovers, and its weight never changes
        again.
    How it is detected
        Buffers that a recorded step changes in place are checked after each step; optimizer state
        is checked after an extremely large loss. The step is then replayed to find the sample.
    How to fix it
        Check the batch before the forward pass, not the loss after it. Reset the statistics or the
        optimizer's state.
    When it stays silent
        When the state is finite.
    Cost
        One check of the running statistics per step.
    """
    if trip.notice is not Notice.STATE or not isinstance(trip.evidence, BadState):
        return None
    names = ", ".join(trip.evidence.names)
    if trip.optimizer is not None:
        return fell_without_bound(trip) or trip_finding(
            trip,
            "nonfinite/state",
            spot=Spot.of_site(trip.stack[0]) if trip.stack else None,
            verdict=f"{trip.evidence.owner}'s {names} is not finite after this step and will not "
            "recover",
            why=f"The gradients are finite, but their squares overflow. With {names} at Inf, "
            "every later update of those weights is 0.",
            fix="Clip the gradients before the step, drop the sample that causes them, and "
            "rebuild the optimizer.",
            phase="optimizer",
            confidence=Confidence.PROVEN,
            replayed=False,
        )
    call = _changer(trip)
    rows = None
    content = _input(call, trip)
    if content is not None and content.dim():
        large = ~torch.isfinite(content) | (content.abs() > 1e15)
        if bool(large.any()):
            rows = blamed_rows(trip, large, lambda run: is_finite_outcome(trip, run))
    sample: Sample | None = rows.sample() if rows is not None else None
    written = Spot.of_site(call.site) if call is not None and call.site is not None else None
    began = _began(trip, call)
    return trip_finding(
        trip,
        "nonfinite/state",
        spot=began.spot or written,
        chain=(*began.hops, written.hop(f"{names} absorbs it"))
        if written is not None
        else began.hops,
        verdict=f"{names} is not finite after this batch and will not recover",
        why=began.why
        + f"In training mode the forward pass writes the batch's statistics into {names}, even if "
        "the loss is skipped. Evaluation uses them.",
        fix=f"{began.fix or 'Check the batch before the forward pass and skip it there.'} Then "
        "reset the statistics (`reset_running_stats()`) or load an earlier checkpoint.",
        patch=began.patch,
        op=began.op if began.spot is not None else call.name if call is not None else None,
        phase="forward",
        module=module_path(trip, call),
        sample=sample,
        counterfactual=f"{rows.text()}, {names} stays finite" if rows is not None else None,
    )


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where the values became non-finite, if that was before the buffer absorbed them."""

    spot: Spot | None = None
    op: str | None = None
    hops: tuple[Hop, ...] = ()
    why: str = ""
    fix: str = ""
    patch: str | None = None


def _began(trip: Trip, call: Call | None) -> Beginning:
    made = trip.born.call if trip.born is not None else None
    if made is not None and made is not call and made.site is not None:
        scenario = scenario_of(trip)
        spot = Spot.of_site(made.site)
        if scenario is None:
            return Beginning(
                spot, made.name, why=f"{made.name} gave NaN or Inf, which reached the buffer. "
            )
        cure, reason = clamped(scenario), scenario.reason
        why = f"{reason.verdict}, which reached the buffer. "
        return Beginning(
            spot, made.name, why=why, fix=reason.fix, patch=cure.patch if cure is not None else None
        )
    source = source_of(trip)
    if source is None or source.trail.spot is None:
        return Beginning()
    trail = source.trail
    return Beginning(
        trail.spot,
        operation_of(trail),
        trail.hops,
        "The data already contained NaN or Inf. ",
    )


def _changer(trip: Trip) -> Call | None:
    return trip.target.call if trip.target is not None else None


def _input(call: Call | None, trip: Trip) -> torch.Tensor | None:
    return (
        Contents(trip.tape, trip.run).of(call.operands[0])
        if call is not None and call.operands
        else None
    )
