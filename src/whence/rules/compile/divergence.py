"""Compiled code whose result differs from the same code run eagerly."""

from __future__ import annotations

from whence.finding import Confidence, Finding
from whence.rules.nonfinite.telling import number_text, trip_finding
from whence.rules.rule import Rank, trip_rule
from whence.source.spots import Spot
from whence.tape.replay import trouble_in
from whence.tape.tape import CompiledRegion
from whence.tape.trip import Notice, Trip


@trip_rule("compile/divergence", Rank.CAUSE)
def divergence(trip: Trip) -> Finding | None:
    """Compiled and eager results differ.

    What happened
        The loss of a step with compiled code is NaN or Inf. The same step with that code run
        eagerly, from the same weights, batch and random state, is finite.
    Why it matters
        The compiled code differs from the program, so the cause is not in the program's source.
    How it is detected
        The step with the NaN or Inf is replayed, with compiled regions run eagerly.
    How to fix it
        Exclude the region from compilation (`torch.compiler.disable`), try another backend, and
        report the bug with the repro.
    When it stays silent
        If the eager result is not finite either, or both differ only by rounding.
    Cost
        None until a loss is not finite.
    """
    regions = (
        [call for call in trip.plan.calls if isinstance(call.func, CompiledRegion)]
        if trip.plan is not None
        else []
    )
    if not regions or trip.notice is not Notice.LOSS or trip.run is None or trip.observed is None:
        return None
    eager = trip.outcome(trip.run)
    if eager is None or trouble_in(eager) or not trouble_in(trip.observed):
        return None
    region = regions[0]
    value = number_text(float(eager.detach().reshape(-1)[0].item()))
    return trip_finding(
        trip,
        "compile/divergence",
        spot=Spot.of_site(region.site) if region.site is not None else None,
        verdict=f"compiled {region.name} gives a loss that is not finite; eager gives {value}",
        why="With the same weights, batch and random state, the same code gives a finite loss when "
        "it is not compiled.",
        fix="Exclude this code from compilation (`torch.compiler.disable`), or try another backend "
        "or PyTorch version.",
        op=region.name,
        phase="forward",
        counterfactual=f"run eagerly the loss is {value}",
        confidence=Confidence.PROVEN,
    )
