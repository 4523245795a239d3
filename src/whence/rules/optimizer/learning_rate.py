"""A learning rate that is too high."""

from __future__ import annotations

import ast
import math

from whence.finding import Confidence, Finding, Severity
from whence.rules.nonfinite.telling import number_text, tell_trip
from whence.rules.rule import Rank, trip_rule
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.trip import RateTrial, Trip


@trip_rule("optimizer/learning-rate-high", Rank.CAUSE)
def learning_rate_high(trip: Trip) -> Finding | None:
    """A smaller step would have lowered the loss; this one raises it.

    What happened
        The loss jumped far above where it was. The update that follows was tried on the same batch at smaller rates: they
        lower the loss, the one that was made multiplies it.
    Why it matters
        The weights grow with every step until a number overflows: first the loss is inf, then everything is NaN.
    How it is detected
        When a loss is thirty times the usual, the step is replayed from before its update and after it, and with a
        tenth, a hundredth ... of the update.
    How to fix it
        The rate that lowered the loss, or less; a warm-up where only the first steps are too large.
    When it stays silent
        Losses that jump for another reason: the update then lowers its own batch's loss. Updates that raise it by less than
        three times.
    Cost
        None until a loss jumps; then a copy of the weights and a few replays, at most four times in a run.
    """
    trial = trip.evidence
    if not isinstance(trial, RateTrial):
        return None
    rate = float(f"{trial.rate * trial.factor:.3g}")
    after = number_text(trial.after) if math.isfinite(trial.after) else "inf"
    return tell_trip(
        trip,
        "optimizer/learning-rate-high",
        spot=Spot.of_site(trip.built[0]) if trip.built else None,
        verdict=f"the learning rate {trial.rate:g} is too high: this step raises the loss from {number_text(trial.before)} to {after}",
        why=f"On the same batch, the same update at a rate of {rate:g} lowers the loss to {number_text(trial.smaller)}. "
        "Each step overshoots further than the one before.",
        fix=f"Begin with a learning rate of {rate:g} or less.",
        op=type(trip.optimizer).__name__,
        phase="optimizer",
        counterfactual=f"at {rate:g} the loss of the same batch goes from {number_text(trial.before)} to "
        f"{number_text(trial.smaller)}, at {trial.rate:g} to {after}",
        confidence=Confidence.PROVEN,
        severity=Severity.ERROR,
        patch=_patch(trip, rate),
    )


def _patch(trip: Trip, rate: float) -> str | None:
    """The rate as a literal in the optimizer's constructor, replaced."""
    node = trip.built[0].node() if trip.built else None
    if not isinstance(node, ast.Call):
        return None
    given = [each.value for each in node.keywords if each.arg == "lr"] or node.args[1:2]
    literal = next((each for each in given if isinstance(each, ast.Constant)), None)
    return diff_of(replace_node(trip.built[0].filename, literal, repr(rate))) if literal is not None else None
