"""Weights that an update, and not a gradient, made NaN or Inf."""

from __future__ import annotations

import ast
import math
from dataclasses import replace

import torch
from torch.optim import Optimizer

from whence.finding import Confidence, Finding
from whence.lineage.births import Contents
from whence.lineage.lines import operation_in
from whence.lineage.properties import NotFinite
from whence.lineage.trail import trace
from whence.lineage.updating import Remade
from whence.rules.nonfinite.forward import scenario_of, tell_forward
from whence.rules.nonfinite.remedies import kept_off_zero
from whence.rules.nonfinite.telling import number_text, tell_trip, trouble_text
from whence.rules.optimizer.rates import set_at
from whence.rules.rule import Rank, trip_rule
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.batches import BatchLeaf
from whence.tape.hand import weights_under
from whence.tape.replay import trouble_in
from whence.tape.trip import BadUpdate, Consequence, Notice, Trip


@trip_rule("nonfinite/update", Rank.CAUSE)
def update(trip: Trip) -> Finding | None:
    """The optimizer's own arithmetic made the weights NaN or Inf.

    What happened
        All gradients are finite, and the update is not. In float16 Adam's eps of 1e-8 rounds to 0 and the squares of small
        gradients do too: 0 divided by 0. In a hand-written optimizer, a division by a second moment that is 0.
    Why it matters
        The weights are lost in one step, and the loss of that step looked healthy.
    How it is detected
        Where weights are float16 and eps rounds to 0, the step is made on copies first. After a step of somebody's own optimizer
        the weights are looked at; if they are lost, the step is made again in a child process, and the first call that gives NaN
        of finite operands is the one. Where the program makes new weights of gradients by its own lines, the call among them that
        did it, as recorded or run once more. Else: weights that are not finite although every gradient was.
    How to fix it
        float32 weights with autocast for the forward pass (a GradScaler for float16). A larger eps only hides it.
    When it stays silent
        autocast with float32 weights.
    Cost
        None for torch's own optimizers and float32 weights; for others one look at the weights in each step.
    """
    if isinstance(trip.evidence, BadUpdate):
        return _tell(trip, trip.evidence)
    scenario = scenario_of(trip) if trip.in_update else None
    if scenario is not None:
        scenario.reason = replace(
            scenario.reason, verdict=f"{scenario.reason.verdict} in the update of the weights"
        )
        return tell_forward("nonfinite/update", scenario, phase="optimizer")
    return _found_later(trip)


OFF_ZERO = "Add an epsilon to the divisor (`sqrt(v) + eps`), or clamp it, before the division; leave out what has no gradient."
COUNT_FROM_ONE = (
    "The divisor is a number of the program's own, and is 0 in this step: mend what it is computed from. A correction like 1 - beta ** t is "
    "0 for t = 0: count the step before it is used."
)


def _tell(trip: Trip, bad: BadUpdate) -> Finding | None:
    names = ", ".join(bad.weights[:3]) + (
        f" and {len(bad.weights) - 3} more" if len(bad.weights) > 3 else ""
    )
    if bad.eps is None:
        return _own_optimizer(trip, bad, names)
    spot = Spot.of_site(trip.built[0]) if trip.built else None
    return tell_trip(
        trip,
        "nonfinite/update",
        spot=spot,
        verdict=f"{bad.optimizer}'s step makes {names} NaN or Inf in float16; the gradients are finite",
        why=f"eps={bad.eps:g} rounds to 0 in float16, and so do the squares of small gradients: the update divides by zero.",
        fix="Keep the weights in float32 and use autocast (with a GradScaler for float16) instead of `.half()`.",
        op=bad.optimizer,
        phase="optimizer",
        counterfactual="the same step made in float32 is finite" if bad.in_float32 else None,
        confidence=Confidence.PROVEN if bad.in_float32 else Confidence.LIKELY,
        replayed=False,
    )


def _own_optimizer(trip: Trip, bad: BadUpdate, names: str) -> Finding | None:
    """An optimizer that is not torch's has destroyed its weights."""
    remade = bad.remade
    if not isinstance(remade, Remade):
        return tell_trip(
            trip,
            "nonfinite/update",
            spot=Spot.of_site(trip.stack[0]) if trip.stack else None,
            verdict=f"{bad.optimizer}'s step made {names} NaN or Inf; the gradients were finite",
            why="All gradients and weights were looked at before the step and were finite, and the weights are not after it.",
            fix="Look at what the update divides by and at its types; print the weights around `step()`.",
            op=bad.optimizer,
            phase="optimizer",
            confidence=Confidence.LIKELY,
            replayed=False,
        )
    divides = "div" in remade.op
    of = f" {'by' if divides else 'of'} 0" if remade.of_zero else ""
    whose = f"{bad.optimizer}'s step" if bad.optimizer else "the update before this step"
    where = (
        f" The 0 was made at {remade.made_by.file}:{remade.made_by.line}."
        if remade.made_by is not None
        else ""
    )
    return tell_trip(
        trip,
        "nonfinite/update",
        spot=remade.spot,
        patch=kept_off_zero(remade.spot)
        if divides and remade.of_zero and not remade.is_plain
        else None,
        verdict=f"{remade.op}{of} in {whose} gave {trouble_text(remade.trouble)}, and {names} with it; the gradients are finite",
        why="Its operands are finite and what it gives is not: a divisor is zero, or a square overflowed. The weights were finite "
        "before this step and are not after it."
        if bad.optimizer
        else "Its operands are finite and what it gives is not: a divisor is zero, or a square overflowed. The gradients of all steps "
        "were looked at and finite; the weights are not finite any more.",
        fix=(COUNT_FROM_ONE if divides and remade.is_plain else OFF_ZERO) + where,
        op=remade.op,
        phase="optimizer",
        chain=(remade.made_by,) if remade.made_by is not None else (),
        counterfactual=_how(bad, remade),
        confidence=Confidence.PROVEN if bad.optimizer or remade.is_exact else Confidence.LIKELY,
        replayed=False,
    )


def _how(bad: BadUpdate, remade: Remade) -> str:
    if bad.optimizer:
        return "the step, made once more with finite weights, gave it again at this call"
    if remade.is_exact:
        return "the same lines, run once more on the weights and gradients from before, lost the same elements again"
    if remade.with_zeros:
        return "the gradients were not kept: with zeros in their place the same lines lost the same elements again"
    return "the same lines, run once more with finite weights, gave it again at this call"


def _found_later(trip: Trip) -> Finding | None:
    """The forward pass began with weights that were not finite."""
    born = trip.born
    if born is None and trip.notice is Notice.INPUT and trip.consequence is Consequence.APPLIED:
        return _by_hand(trip)
    if born is None and trip.notice is Notice.LOSS and trip.observed is not None and trip.step:
        return _lost_before(trip, trip.observed)
    if (
        born is None
        or born.leaf is None
        or trip.notice is Notice.GRADIENT
        or isinstance(born.leaf.leaf, BatchLeaf)
    ):
        return None
    tensor = born.leaf.tensor
    if (
        tensor is None
        or not tensor.requires_grad
        or not tensor.is_leaf
        or not Contents(trip.tape, trip.run).trouble(born.leaf)
    ):
        return None
    name = trip.modules.name_of(tensor) or "a weight"
    if trip.step == 0:
        trail = trace(born.leaf, NotFinite(trip.tape), trip)
        return tell_trip(
            trip,
            "nonfinite/uninitialised",
            spot=trail.spot,
            verdict=f"{name} is not finite before the first step",
            why="No update has been made yet: the weight was created, initialised or loaded with NaN or Inf in it.",
            fix="Initialise the weight: torch.empty and torch.Tensor(n) do not.",
            op=trail.op or _operation(trail.spot),
            patch=_zeros(trail.spot),
            module=trail.module,
            chain=trail.hops,
        )
    if (told := _bad_rate(trip, name)) is not None:
        return told
    site = _last_update(trip)
    return tell_trip(
        trip,
        "nonfinite/update",
        spot=Spot.of_site(site) if site is not None else None,
        verdict=f"{name} was not finite any more before this step"
        + (", although every gradient was" if not trip.unseen else ""),
        why="A hook updates the weights within backward, and has used and cleared the gradients of the step before when that ends: "
        "either these were not finite, or the update itself was not."
        if trip.unseen
        else "The gradients of all steps before were looked at and finite: the update itself, or code that writes weights, did it.",
        fix="Look at what the update divides by and at its types; print the weights around `step()`."
        if not trip.unseen
        else "Print in the hook whether the gradient is finite: torch.isfinite(weight.grad).all().",
        phase="optimizer",
        confidence=Confidence.LIKELY,
    )


def _lost_before(trip: Trip, loss: torch.Tensor) -> Finding | None:
    """The step was not recorded; but its weights are there, and nobody has changed them since it began."""
    lost = [each for each in weights_under(loss) if trouble_in(each)]
    site = _last_update(trip)
    if not lost or site is None:
        return None
    name = trip.modules.name_of(lost[0]) or next(iter(trip.weights), "a weight")
    if (told := _bad_rate(trip, name)) is not None:
        return told
    return tell_trip(
        trip,
        "nonfinite/update",
        spot=Spot.of_site(site),
        verdict=f"{name} was not finite any more before this step, although every gradient was",
        why="The gradients of all steps before were looked at and finite: the update made of them was not.",
        fix="Look at what the update divides by: a norm of a gradient that is zero, a second moment.",
        phase="optimizer",
        confidence=Confidence.LIKELY,
        replayed=False,
    )


def _bad_rate(trip: Trip, name: str) -> Finding | None:
    """The optimizer has a rate that is not finite: a schedule that the program computes itself."""
    groups = trip.optimizer.param_groups if isinstance(trip.optimizer, Optimizer) else []
    bad = next(
        (float(each["lr"]) for each in groups if not math.isfinite(float(each.get("lr", 0.0)))),
        None,
    )
    if bad is None:
        return None
    return tell_trip(
        trip,
        "nonfinite/update",
        spot=set_at(trip) or (Spot.of_site(trip.stack[0]) if trip.stack else None),
        verdict=f"the learning rate is {number_text(bad)}, and {name} is not finite any more; the gradients were",
        why="An update is the gradient times the rate. The gradients of all steps before were looked at and finite, the rate is not.",
        fix="Look at the formula of the rate for this step: a division by zero, a negative number under a root or a power.",
        phase="optimizer",
        confidence=Confidence.LIKELY,
        replayed=False,
    )


def _by_hand(trip: Trip) -> Finding | None:
    """Gradients are computed with `torch.func`, and the program makes the new weights itself."""
    name = trip.weights[0] if trip.weights else "what they are computed from"
    return tell_trip(
        trip,
        "nonfinite/update",
        spot=None,
        verdict=f"{name} is not finite when gradients are computed in this step; the last ones were finite",
        why="What comes out of torch.func was looked at in every step and was finite: what the program did with it since was not.",
        fix="Look at what the update divides by: a norm of a gradient that is zero, a second moment.",
        phase="optimizer",
        confidence=Confidence.LIKELY,
    )


def _operation(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    return operation_in(node) if node is not None else None


def _zeros(spot: Spot | None) -> str | None:
    """`torch.zeros` in place of `torch.empty`."""
    node = spot.node() if spot is not None else None
    for each in ast.walk(node) if node is not None else ():
        if (
            spot is not None
            and isinstance(each, ast.Attribute)
            and ast.unparse(each) == "torch.empty"
        ):
            return diff_of(replace_node(spot.filename, each, "torch.zeros"))
    return None


def _last_update(trip: Trip) -> Site | None:
    for call in reversed(trip.tape.calls):
        if call.phase == "optimizer" and call.stack:
            return call.stack[0]
    return trip.built[0] if trip.built else None
