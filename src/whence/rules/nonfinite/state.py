"""Numbers that outlive a step and are not finite any more."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from whence.finding import Confidence, Finding, Hop, Sample
from whence.lineage.births import Contents
from whence.lineage.rows import blamed_rows, is_finite_outcome
from whence.rules.data.nonfinite import operation_of, source_of
from whence.rules.loss.endless import fell_without_end
from whence.rules.nonfinite.forward import clamped, scenario_of
from whence.rules.nonfinite.telling import module_path, tell_trip
from whence.rules.rule import Rank, trip_rule
from whence.source.spots import Spot
from whence.tape.tape import Call
from whence.tape.trip import BadState, Notice, Trip


@trip_rule("nonfinite/state", Rank.CAUSE)
def state(trip: Trip) -> Finding | None:
    """A buffer or optimizer state is poisoned and outlives the bad batch.

    What happened
        BatchNorm's running statistics, or an optimizer's moments, took in a number that is not finite, or one whose
        square is not. The program may skip the batch's loss: the statistics were changed in the forward pass already.
    Why it matters
        Training looks healthy, for it uses the statistics of the batch; evaluation is NaN or constant from then on. A second
        moment of Inf never comes back, and its weight never moves again.
    How it is detected
        What a recorded step changes in place, beside weights, is looked at after each step; optimizer state after a loss
        beyond all measure. The step is then replayed to name the sample.
    How to fix it
        Check the batch before the forward pass, not the loss after it; reset the statistics or the optimizer's state.
    When it stays silent
        State that is finite.
    Cost
        One look at the running statistics in each step.
    """
    if trip.notice is not Notice.STATE or not isinstance(trip.evidence, BadState):
        return None
    names = ", ".join(trip.evidence.names)
    if trip.optimizer is not None:
        return fell_without_end(trip) or tell_trip(
            trip,
            "nonfinite/state",
            spot=Spot.of_site(trip.stack[0]) if trip.stack else None,
            verdict=f"{trip.evidence.owner}'s {names} is not finite after this step, and stays so",
            why=f"The gradients are finite, their squares are not: with {names} at Inf the update of those weights is 0 for ever.",
            fix="Clip the gradients before the step, leave out the sample that makes them, and rebuild the optimizer.",
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
    return tell_trip(
        trip,
        "nonfinite/state",
        spot=began.spot or written,
        chain=(*began.hops, written.hop(f"{names} takes it in"))
        if written is not None
        else began.hops,
        verdict=f"{names} is not finite after this batch, and outlives it",
        why=began.why
        + "The forward pass in training mode writes the statistics of this batch into it, whatever becomes of the loss: "
        "evaluation uses it.",
        fix=f"{began.fix or 'Check the batch before the forward pass and leave it out there.'} Then reset the statistics "
        "(`reset_running_stats()`) or load a checkpoint from before.",
        patch=began.patch,
        op=began.op if began.spot is not None else call.name if call is not None else None,
        phase="forward",
        module=module_path(trip, call),
        sample=sample,
        counterfactual=f"{rows.text()} {names} stays finite" if rows is not None else None,
    )


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where what is taken in became what it is, if it was not finite already."""

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
                spot, made.name, why=f"{made.name} gave NaN or Inf, and that is what it takes in. "
            )
        cure, reason = clamped(scenario), scenario.reason
        why = f"{reason.verdict}, and that is what it takes in. "
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
        "What it takes in was not finite in the data already. ",
    )


def _changer(trip: Trip) -> Call | None:
    return trip.target.call if trip.target is not None else None


def _input(call: Call | None, trip: Trip) -> torch.Tensor | None:
    return (
        Contents(trip.tape, trip.run).of(call.operands[0])
        if call is not None and call.operands
        else None
    )
