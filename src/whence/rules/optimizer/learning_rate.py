"""A learning rate that is too high, or too low."""

from __future__ import annotations

import ast
import math
from types import FrameType

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.lineage.following.trace import SourceTrace
from whence.lineage.grounds import ground_of
from whence.lineage.properties import IsNumber
from whence.lineage.written import written_number, written_setting
from whence.rules.nonfinite.telling import number_text, trip_finding
from whence.rules.optimizer.group_rates import unmoved_groups
from whence.rules.optimizer.rates import capped, set_at
from whence.rules.rule import Rank, audit_rule, trip_rule
from whence.rules.telling import silent_finding
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.trip import RateTrial, Trip

FAR_ABOVE = 1.5
"""Relative to the learning rate that an optimizer was built with."""
LAST = 20
LONG_ENOUGH = 50
STILL_THERE = 0.9
"""Relative to the loss before the step that raised it."""


@trip_rule("optimizer/learning-rate-high", Rank.GENERAL)
def learning_rate_high(trip: Trip) -> Finding | None:
    """A smaller step would have lowered the loss; this one raises it.

    What happened
        The loss jumped far above its usual value. The following update was tried on the same batch
        with smaller learning rates: they lower the loss, the actual one multiplies it.
    Why it matters
        The weights grow with every step until a value overflows: first the loss is inf, then
        everything is NaN.
    How it is detected
        When a loss is thirty times the usual, the step is replayed from before its update and after
        it, and with a tenth, a hundredth ... of the update. When a loss is three times the first,
        the update that Adam has just made is undone using its moments, and tried in the same way;
        this is reported at the end, if the loss never fell below its earlier value.
    How to fix it
        Use the learning rate that lowered the loss, or less; a warm-up if only the first steps are
        too large. A learning rate that has grown since the optimizer was built is reported at the
        schedule, or at the line that sets it.
    When it stays silent
        For losses that jump for another reason: the update then lowers its own batch's loss. For
        updates that raise it by less than three times. For a learning rate range test, which raises
        the rate by the same factor in every step.
    Cost
        None until a loss jumps; then a copy of the weights and a few replays, at most four times in
        a run.
    """
    trial = trip.evidence
    if not isinstance(trial, RateTrial):
        return None
    if trial.rate is None:
        return _by_hand(trip, trial)
    rate = float(f"{trial.rate * trial.factor:.3g}")
    if (raised := _raised(trip, trial, rate)) is not None:
        return raised
    # A schedule may have changed it since.
    chosen = (
        trip.optimizer.defaults.get("lr", trial.rate) if trip.optimizer is not None else trial.rate
    )
    written = _written(trip.built, trip.frames, chosen)
    after = number_text(trial.after) if math.isfinite(trial.after) else "inf"
    return trip_finding(
        trip,
        "optimizer/learning-rate-high",
        spot=written
        or _computed(trip.built, trip.frames, chosen)
        or (Spot.of_site(trip.built[0]) if trip.built else None),
        verdict=f"the learning rate {trial.rate:g} is too high: this step raises the loss from "
        f"{number_text(trial.before)} to {after}",
        why=f"On the same batch, the same update with a learning rate of {rate:g} lowers the loss "
        f"to {number_text(trial.smaller)}. The actual step overshoots the minimum.",
        fix=f"Start with a learning rate of {rate:g} or less.",
        op=type(trip.optimizer).__name__,
        phase="optimizer",
        counterfactual=f"with lr={rate:g}, the loss of the same batch goes from "
        f"{number_text(trial.before)} to {number_text(trial.smaller)}; with lr={trial.rate:g}, to "
        f"{after}",
        confidence=Confidence.PROVEN,
        severity=Severity.ERROR,
        patch=_patch(written, rate),
    )


def _raised(trip: Trip, trial: RateTrial, rate: float) -> Finding | None:
    """Report a learning rate that was raised far above the optimizer's initial one."""
    assert trial.rate is not None
    group = trip.optimizer.param_groups[0] if trip.optimizer is not None else {}
    first = float(group.get("initial_lr", trip.optimizer.defaults.get("lr", 0.0))) if group else 0.0
    spot = set_at(trip) if trial.rate > FAR_ABOVE * first > 0 else None
    if spot is None:
        return None
    after = number_text(trial.after) if math.isfinite(trial.after) else "inf"
    is_factor = trip.schedule is not None and trip.schedule.kind == "LambdaLR"
    return trip_finding(
        trip,
        "optimizer/learning-rate-high",
        spot=spot,
        verdict=f"the learning rate grew from {first:g} to {trial.rate:g}, which is too high: "
        f"this step raises the loss from {number_text(trial.before)} to {after}",
        why=f"On the same batch, the same update with a learning rate of {rate:g} lowers the loss "
        f"to {number_text(trial.smaller)}."
        + (
            " The result of this formula is multiplied with the learning rate that the optimizer "
            "was built with."
            if is_factor
            else ""
        ),
        fix=f"Limit the learning rate to {rate:g} or less: a warm-up should stop at the target "
        "learning rate.",
        op=type(trip.optimizer).__name__,
        phase="optimizer",
        counterfactual=f"with lr={rate:g}, the loss of the same batch goes from "
        f"{number_text(trial.before)} to {number_text(trial.smaller)}; with lr={trial.rate:g}, to "
        f"{after}",
        confidence=Confidence.PROVEN,
        severity=Severity.ERROR,
        patch=capped(spot) if is_factor and first <= rate else None,
    )


def _by_hand(trip: Trip, trial: RateTrial) -> Finding | None:
    """Report an update that the program makes itself: only its size is known."""
    after = number_text(trial.after) if math.isfinite(trial.after) else "inf"
    before, smaller = number_text(trial.before), number_text(trial.smaller)
    return trip_finding(
        trip,
        "optimizer/learning-rate-high",
        spot=Spot.of_site(trip.built[0]) if trip.built else None,
        verdict=f"the update is too large: it raises the loss from {before} to {after}",
        why=f"On the same batch, {trial.factor:g} times the same update lowers the loss to "
        f"{smaller}. The actual step overshoots the minimum.",
        fix=f"Multiply the learning rate by {trial.factor:g} or less. Scale features of very "
        "different magnitude first.",
        phase="optimizer",
        counterfactual=f"with {trial.factor:g} times the update, the loss of the same batch goes "
        f"from {before} to {smaller}; with the full update, to {after}",
        confidence=Confidence.PROVEN,
        severity=Severity.ERROR,
    )


@audit_rule("optimizer/learning-rate-high", Rank.GENERAL)
def never_recovered(audit: Audit) -> Finding | None:
    """Report an early update that raised the loss, which has not recovered since."""
    for entry in audit.built:
        trial, losses = (
            entry.overshot,
            [each for each in list(audit.losses)[-LAST:] if math.isfinite(each)],
        )
        if (
            not audit.final
            or trial is None
            or trial.rate is None
            or entry.steps < LONG_ENOUGH
            or len(losses) < LAST
        ):
            continue
        end = sum(losses) / len(losses)
        if end < STILL_THERE * trial.before or not entry.stack:
            continue
        rate = float(f"{trial.rate * trial.factor:.3g}")
        written = _written(entry.stack, audit.frames, trial.rate)
        before, after = number_text(trial.before), number_text(trial.after)
        return silent_finding(
            audit,
            "optimizer/learning-rate-high",
            spot=written
            or _computed(entry.stack, audit.frames, trial.rate)
            or Spot.of_site(entry.stack[0]),
            symptom=Spot.of_site(entry.stack[0]),
            step=audit.step,
            op=entry.kind,
            phase="optimizer",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"the learning rate {trial.rate:g} is too high: one step raised the loss from "
            f"{before} to {after}, and it is no lower after {entry.steps} steps",
            what=f"the mean of the last losses is {number_text(end)}",
            why=f"The same update with a learning rate of {rate:g} gives a loss of "
            f"{number_text(trial.smaller)}. {entry.kind} moves every weight by about the learning "
            "rate per step, however small its gradient: the first steps probably moved the "
            "weights to a region where training makes no progress.",
            fix=f"Start with a learning rate of {rate:g} or less.",
            counterfactual=f"with lr={rate:g}, the loss of the same batch goes from {before} to "
            f"{number_text(trial.smaller)}; with lr={trial.rate:g}, to {after}",
            patch=_patch(written, rate),
        )
    return None


def _given(built: tuple[Site, ...]) -> ast.expr | None:
    """The learning rate argument of the optimizer's constructor."""
    node = built[0].node() if built else None
    if not isinstance(node, ast.Call):
        return None
    return next(
        iter([each.value for each in node.keywords if each.arg == "lr"] or node.args[1:2]), None
    )


def _computed(built: tuple[Site, ...], frames: list[FrameType], rate: float) -> Spot | None:
    """The expression that computes the learning rate, if it is not the argument itself."""
    given = _given(built)
    spot = (
        SourceTrace(IsNumber(rate), frames).follow(given, ground_of(built, frames)).spot
        if given
        else None
    )
    made = spot.node() if spot is not None else None
    value = made.value if isinstance(made, ast.Assign | ast.AnnAssign) else made
    return (
        Spot.of_node(spot.filename, value)
        if spot is not None and isinstance(value, ast.BinOp)
        else None
    )


def _written(built: tuple[Site, ...], frames: list[FrameType], rate: float) -> Spot | None:
    """The learning rate as a literal: in the optimizer's constructor, or where it comes from."""
    node, given = built[0].node() if built else None, _given(built)
    if not isinstance(node, ast.Call):
        return None
    if given is None:
        # `**settings`
        return (
            written_setting("lr", rate) if any(each.arg is None for each in node.keywords) else None
        )
    spot = SourceTrace(IsNumber(rate), frames).follow(given, ground_of(built, frames)).spot
    made = spot.node() if spot is not None else None
    literal = made.value if isinstance(made, ast.Assign | ast.AnnAssign) else made
    if spot is None or not isinstance(literal, ast.Constant) or literal.value != rate:
        return written_number(built, given, rate)
    return Spot.of_node(spot.filename, literal)


def _patch(written: Spot | None, rate: float) -> str | None:
    literal = written.node() if written is not None else None
    number = literal.value if isinstance(literal, ast.Constant) else None
    if written is None or literal is None or not isinstance(number, int | float) or number <= rate:
        return None
    return diff_of(replace_node(written.filename, literal, repr(rate)))


@audit_rule("optimizer/learning-rate-low", Rank.GENERAL)
def learning_rate_low(audit: Audit) -> Finding | None:
    """Updates are too small to matter.

    What happened
        After many steps with gradients the weights have moved by less than 0.1 % of their size, and
        the loss has not changed. Or this is so for some parameter groups, whose learning rate is a
        ten-thousandth of the others' or less.
    Why it matters
        The run learns almost nothing in its time.
    How it is detected
        The weights at the end are compared with those at the start, and the losses of the first
        with those of the last steps.
    How to fix it
        Use a larger learning rate: try factors of ten.
    When it stays silent
        For losses that fall, few steps, frozen weights, and groups with a learning rate of zero. It
        is a note where no weight moves: a schedule may start this way.
    Cost
        A few hundred elements of each weight are kept.
    """
    return unmoved_groups(audit) or _nothing_moves(audit)


def _nothing_moves(audit: Audit) -> Finding | None:
    losses = [each for each in audit.losses if math.isfinite(each)]
    if (
        not audit.final
        or audit.step < 30
        or len(losses) < 30
        or audit.told - {"optimizer/unscaled-accumulation"}
    ):
        return None
    first, last = sum(losses[:10]) / 10, sum(losses[-10:]) / 10
    entry = next(
        (each for each in reversed(audit.built) if each.steps >= 30 and each.stack and each.rates),
        None,
    )
    if (
        entry is None
        or entry.rates[1] == 0
        or abs(first - last) > 0.02 * abs(first)
        or abs(last) < 1e-6
    ):
        return None
    moved = [
        each.moved()
        for each in audit.weights.entries()
        if each.weight is not None and id(each.weight) in entry.weights
    ]
    if not moved or max(moved) > 1e-3:
        return None
    rate = entry.rates[1]
    return silent_finding(
        audit,
        "optimizer/learning-rate-low",
        spot=_written(entry.stack, audit.frames, rate)
        or _computed(entry.stack, audit.frames, rate)
        or Spot.of_site(entry.stack[0]),
        symptom=Spot.of_site(entry.stack[0]),
        step=audit.step,
        op=entry.kind,
        phase="optimizer",
        severity=Severity.INFO,
        confidence=Confidence.HINT,
        verdict=f"the learning rate {rate:g} may be too low: after {entry.steps} steps weights "
        f"changed by at most {max(moved):.1e} of their size",
        what=f"the loss went from {first:.4g} to {last:.4g}",
        why="The updates are so small that the weights still have almost their initial values.",
        fix="Try a learning rate that is 10, 100 ... times larger.",
    )
