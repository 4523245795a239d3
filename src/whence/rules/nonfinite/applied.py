"""Non-finite gradients that no backward pass computed: the program wrote or scaled them itself."""

from __future__ import annotations

from whence.finding import Confidence, Finding, Hop, Operand
from whence.lineage.births import Contents, first_bad
from whence.lineage.gradients import Inside, line_inside
from whence.lineage.properties import NotFinite
from whence.lineage.trail import trace
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.nonfinite.guards import guarded_update
from whence.rules.nonfinite.remedies import nonzero_divisor
from whence.rules.nonfinite.telling import number_text, place_text, trip_finding, what_of
from whence.rules.rule import Rank, trip_rule
from whence.rules.telling import describe
from whence.source.spots import Spot
from whence.tape.hand import weights_under
from whence.tape.replay import trouble_in
from whence.tape.tape import Call, Value
from whence.tape.trip import Consequence, Notice, Trip


def _unexplained(trip: Trip) -> Finding | None:
    """Report a non-finite loss whose step could not be replayed, or whose replay was finite."""
    lost = (
        [each for each in weights_under(trip.observed) if trouble_in(each)]
        if trip.observed is not None
        else []
    )
    if lost:
        name = trip.modules.name_of(lost[0]) or f"a weight of shape {tuple(lost[0].shape)}"
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        return trip_finding(
            trip,
            "nonfinite/update",
            spot=None,
            verdict=f"{name}{more} {'were' if more else 'was'} already NaN or Inf when this step "
            "began",
            why="No operation of this step produced it. The previous update did, or other code "
            "that writes to the weights.",
            fix="Check the learning rate of the previous step (a schedule can make it Inf) and "
            "other code that writes to the weights.",
            phase="optimizer",
            confidence=Confidence.LIKELY,
        )
    if trip.now.is_over:
        return _read_late(trip)
    return trip_finding(
        trip,
        "nonfinite/gradient-applied",
        spot=None,
        verdict=f"{what_of(trip)}, and the optimizer is about to apply its gradients",
        why="The origin is unknown: this step was not recorded, and no recorded step could be "
        "replayed in its place.",
        fix="Run again with Whence on from the start of the epoch, so that a step of this kind "
        "is recorded.",
        phase="optimizer",
        confidence=Confidence.LIKELY,
    )


def _read_late(trip: Trip) -> Finding | None:
    """Report a step on an accelerator whose inputs were freed before its values arrived."""
    return trip_finding(
        trip,
        "nonfinite/gradient-applied",
        spot=None,
        verdict=f"{what_of(trip)}, and the optimizer has applied its gradients",
        why="On an accelerator the values of a step are read after its update, to avoid waiting "
        "for the device. The step could not be replayed "
        f"({trip.could_not or 'its weights have been overwritten'}).",
        fix="Run again with `--stop-on error`: values are then read before each update, so this "
        "step can be replayed.",
        phase="optimizer",
        confidence=Confidence.LIKELY,
    )


def _in_a_hook(trip: Trip) -> Inside | None:
    """Replay backward in a child process with the program's hooks, and trace their lines."""
    try:
        return run_in_child(lambda: line_inside(trip, with_hooks=True), need=Need.HOOKS)
    except NotPossible:
        return None


def _what_is_known(trip: Trip) -> str:
    """What is known about a gradient whose origin was not found."""
    if not trip.certified:
        reason = trip.could_not.split(";")[0]
        return "The operation that produced it is unknown: the step could not be replayed" + (
            f" ({reason})." if reason else "."
        )
    if trip.backwards > 1 and not trip.by_last_backward:
        return (
            f"The gradient was accumulated over {trip.backwards} backward passes. Only the last "
            "was replayed, and its gradients are finite."
        )
    return "Replaying the backward pass gives finite gradients."


def _advice(trip: Trip) -> str:
    if not trip.certified:
        return (
            "Wrap the step in `torch.autograd.set_detect_anomaly(True)` to find the operation, "
            "if backward produces it. Until then, skip steps with a non-finite gradient."
        )
    earlier = (
        "the batches before the last one, and "
        if trip.backwards > 1 and not trip.by_last_backward
        else ""
    )
    return (
        f"Check {earlier}the code that writes this gradient between backward and the update: "
        "hooks, scaling, `.grad`."
    )


def _divided(trip: Trip, call: Call, spot: Spot) -> str | None:
    """Return a diff if the program divides a gradient by 0: an empty count, or a zero norm."""
    divisor = call.args[1] if "div" in call.name and len(call.args) > 1 else None
    if isinstance(divisor, int | float):
        return nonzero_divisor(spot, counts=isinstance(divisor, int)) if divisor == 0 else None
    tensor = Contents(trip.tape, trip.run).of(divisor) if isinstance(divisor, Value) else None
    return nonzero_divisor(spot) if tensor is not None and bool((tensor == 0).any()) else None


@trip_rule("nonfinite/gradient-applied", Rank.GENERAL)
def gradient_applied(trip: Trip) -> Finding | None:
    """A NaN or Inf gradient is applied to the weights.

    What happened
        An optimizer is about to apply a gradient that is not finite, and backward did not produce
        it: the program wrote it, scaled it, or changed it in a hook.
    Why it matters
        No optimizer rejects such a gradient. Adam's weights and state become NaN and never recover.
    How it is detected
        All gradients are checked before an optimizer uses them. If a replay of the step gives
        finite gradients, Whence traces the operations that the program applied to the gradient
        afterwards.
    How to fix it
        Fix the line that writes the gradient. `clip_grad_norm_(..., error_if_nonfinite=True)`
        raises at such a step. Whence offers a diff for a division by zero, and for an update that
        ignores the program's own check. It does not add a new check, because that would hide the
        cause.
    When it stays silent
        For steps that are skipped, and for gradients that no optimizer uses.
    Cost
        One check of the gradients per step.
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
            Spot.of_site(call.site).hop(f"{call.name} propagates it")
            for call in born.path
            if call.site is not None
        )
    elif born is not None and born.leaf is not None:
        trail = trace(born.leaf, NotFinite(trip.tape), trip)
        spot, op, hops = trail.spot, trail.op, trail.hops
    elif (inside := _in_a_hook(trip)) is not None:
        op, spot, phase = inside.op, inside.spot, "backward"
        patch = nonzero_divisor(spot) if inside.by_zero else None
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
    return trip_finding(
        trip,
        "nonfinite/gradient-applied",
        spot=spot,
        verdict=f"a gradient with {number} at {place_text(index)} is about to be applied to "
        f"{names}",
        why=f"The optimizer does not check gradients: {names} will not be finite after this step, "
        "and nothing raises." + ("" if known else f" {_what_is_known(trip)}"),
        fix="Fix the line that produces this gradient. Until then, skip steps with a non-finite "
        "gradient."
        if known
        else _advice(trip),
        op=op,
        phase=phase if known else "optimizer",
        chain=hops,
        operands=operands,
        patch=patch if known else guarded_update(trip),
        confidence=Confidence.PROVEN if known else Confidence.LIKELY,
        replayed=False,
    )
