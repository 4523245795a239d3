"""Gradients that no backward made: written, or spoilt, by the program itself."""

from __future__ import annotations

from whence.finding import Confidence, Finding, Hop, Operand
from whence.lineage.births import Contents, first_bad
from whence.lineage.gradients import Inside, line_inside
from whence.lineage.properties import NotFinite
from whence.lineage.trail import trace
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.nonfinite.guards import heeded
from whence.rules.nonfinite.remedies import kept_off_zero
from whence.rules.nonfinite.telling import number_text, place_text, tell_trip, what_of
from whence.rules.rule import Rank, trip_rule
from whence.rules.telling import describe
from whence.source.spots import Spot
from whence.tape.hand import weights_under
from whence.tape.replay import trouble_in
from whence.tape.tape import Call, Value
from whence.tape.trip import Consequence, Notice, Trip


def _unexplained(trip: Trip) -> Finding | None:
    """The loss is not finite and the step could not be replayed, or does not tell: say what is known."""
    lost = (
        [each for each in weights_under(trip.observed) if trouble_in(each)]
        if trip.observed is not None
        else []
    )
    if lost:
        name = trip.modules.name_of(lost[0]) or f"a weight of shape {tuple(lost[0].shape)}"
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        return tell_trip(
            trip,
            "nonfinite/update",
            spot=None,
            verdict=f"{name}{more} {'were' if more else 'was'} not finite when this step began",
            why="No operation of this step made it so: the update of the step before did, or what has written to the weights since.",
            fix="Look at the learning rate of that step, which a schedule may have made Inf, and at what else writes to the weights.",
            phase="optimizer",
            confidence=Confidence.LIKELY,
        )
    if trip.now.is_over:
        return _read_late(trip)
    return tell_trip(
        trip,
        "nonfinite/gradient-applied",
        spot=None,
        verdict=f"{what_of(trip)}, and the optimizer is about to use its gradients",
        why="Where it was born is not known: this step was not recorded, and no recorded step could stand for it.",
        fix="Run again with the watch on from the start of the epoch; the next step of this kind is recorded.",
        phase="optimizer",
        confidence=Confidence.LIKELY,
    )


def _read_late(trip: Trip) -> Finding | None:
    """The device runs behind the program: when the values of this step arrived, what they were computed from was gone."""
    return tell_trip(
        trip,
        "nonfinite/gradient-applied",
        spot=None,
        verdict=f"{what_of(trip)}, and the update has used it",
        why="The values of a step on an accelerator are read after its update, so as not to wait for the device. "
        f"The step could not be replayed ({trip.could_not or 'the weights that it had are gone'}).",
        fix="Run again with `--stop-on error`: values are then read before each update, and this step can be replayed.",
        phase="optimizer",
        confidence=Confidence.LIKELY,
    )


def _in_a_hook(trip: Trip) -> Inside | None:
    """Run backward again with the program's own hooks on the weights, in a child process, and watch their lines."""
    try:
        return run_in_child(lambda: line_inside(trip, with_hooks=True), need=Need.HOOKS)
    except NotPossible:
        return None


def _what_is_known(trip: Trip) -> str:
    """Of a gradient whose origin was not found."""
    if not trip.certified:
        reason = trip.could_not.split(";")[0]
        return "Which operation made it is not known: the step could not be run again" + (
            f" ({reason})." if reason else "."
        )
    if trip.backwards > 1 and not trip.by_last_backward:
        return f"Of the {trip.backwards} backwards that it was added up over, the last was run again and gave finite gradients."
    return "The backward was run again and gave finite gradients."


def _where_to_look(trip: Trip) -> str:
    if not trip.certified:
        return (
            "`torch.autograd.set_detect_anomaly(True)` names the operation if a backward makes it; until then skip the step where a "
            "gradient is not finite."
        )
    earlier = (
        "at the batches before the last one, and "
        if trip.backwards > 1 and not trip.by_last_backward
        else ""
    )
    return f"Look {earlier}at what writes this gradient between backward and the update: hooks, scaling, `.grad`."


def _divided(trip: Trip, call: Call, spot: Spot) -> str | None:
    """A gradient that the program has divided by 0: by a count of nothing, or by a norm of nothing."""
    divisor = call.args[1] if "div" in call.name and len(call.args) > 1 else None
    if isinstance(divisor, int | float):
        return kept_off_zero(spot, counts=isinstance(divisor, int)) if divisor == 0 else None
    tensor = Contents(trip.tape, trip.run).of(divisor) if isinstance(divisor, Value) else None
    return kept_off_zero(spot) if tensor is not None and bool((tensor == 0).any()) else None


@trip_rule("nonfinite/gradient-applied", Rank.GENERAL)
def gradient_applied(trip: Trip) -> Finding | None:
    """A NaN or Inf gradient is about to be, or was, applied to weights.

    What happened
        An optimizer is about to use a gradient that is not finite, and backward did not make it so: the program wrote it,
        scaled it, or changed it in a hook.
    Why it matters
        No optimizer refuses it. Adam turns the weight, and its own state, into NaN for good.
    How it is detected
        All gradients are looked at before an optimizer uses them. If a replay of the step gives finite ones, the gradient is
        followed back over what the program did with it.
    How to fix it
        Mend the line that writes it; `clip_grad_norm_(..., error_if_nonfinite=True)` makes such a step loud. A division by zero
        has a diff, and so has an update that is made in spite of a check. There is none that brings in a check: what made the
        gradient would stay.
    When it stays silent
        Steps that are skipped, and gradients that nobody uses.
    Cost
        One look at the gradients in each step.
    """
    if trip.notice is Notice.LOSS and trip.consequence is Consequence.APPLIED:
        return _unexplained(trip)
    if trip.notice is not Notice.GRADIENT:
        return None
    gradient = trip.bad_gradients[0] if trip.bad_gradients else None
    born = trip.born
    spot, op, phase = None, None, "program"
    hops: tuple[Hop, ...] = ()
    operands: tuple[Operand, ...] = ()
    patch: str | None = None
    if born is not None and born.call is not None and born.call.site is not None:
        spot, op, phase = Spot.of_site(born.call.site), born.call.name, born.call.phase
        made = Contents(trip.tape, trip.run).of(born.output) if born.output is not None else None
        if made is not None:
            operands = (Operand(op, describe(made)),)
        patch = _divided(trip, born.call, spot)
        hops = tuple(
            Spot.of_site(call.site).hop(f"{call.name} carries it on")
            for call in born.path
            if call.site is not None
        )
    elif born is not None and born.leaf is not None:
        trail = trace(born.leaf, NotFinite(trip.tape), trip)
        spot, op, hops = trail.spot, trail.op, trail.hops
    elif (inside := _in_a_hook(trip)) is not None:
        op, spot, phase = inside.op, inside.spot, "backward"
        patch = kept_off_zero(spot) if inside.by_zero else None
    names = ", ".join(trip.weights[:3]) + (
        f" and {len(trip.weights) - 3} more" if len(trip.weights) > 3 else ""
    )
    if gradient is None:
        return _read_late(trip) if trip.now.is_over else None
    index = first_bad(gradient, "nan") or first_bad(gradient, "inf")
    number = (
        number_text(float(gradient.detach()[index].item()))
        if index or not gradient.dim()
        else "NaN or Inf"
    )
    known = spot is not None
    return tell_trip(
        trip,
        "nonfinite/gradient-applied",
        spot=spot,
        verdict=f"a gradient with {number} at {place_text(index)} is about to be applied to {names}",
        why=f"The update uses it as it is: {names} will not be finite after this step, and nothing raises."
        + ("" if known else f" {_what_is_known(trip)}"),
        fix="Mend the line that makes this gradient; until then skip the step where a gradient is not finite."
        if known
        else _where_to_look(trip),
        op=op,
        phase=phase if known else "optimizer",
        chain=hops,
        operands=operands,
        patch=patch if known else heeded(trip),
        confidence=Confidence.PROVEN if known else Confidence.LIKELY,
        replayed=False,
    )
