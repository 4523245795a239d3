"""Weights that an update turned into NaN or Inf although the gradients were finite."""

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
from whence.rules.nonfinite.forward import forward_finding, scenario_of
from whence.rules.nonfinite.remedies import nonzero_divisor
from whence.rules.nonfinite.telling import number_text, trip_finding, trouble_text
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
    """The optimizer's own arithmetic turned the weights into NaN or Inf.

    What happened
        All gradients are finite, but the update is not. In float16, Adam's eps of 1e-8 and the
        squares of small gradients round to 0: 0 divided by 0. In a hand-written optimizer, a second
        moment of 0 is the divisor.
    Why it matters
        The weights are lost in one step, and the loss of that step looked healthy.
    How it is detected
        Where weights are float16 and eps rounds to 0, the step is tried on copies first. After a
        step of a custom optimizer the weights are checked. If they are not finite, the step is
        repeated in a child process, and the first call that gives NaN from finite operands is
        reported. Where the program computes new weights from gradients itself, its own lines are
        searched, as recorded or run again. Otherwise Whence reports weights that are not finite
        although every gradient was.
    How to fix it
        Keep float32 weights and use autocast for the forward pass (with a GradScaler for float16).
        A larger eps only hides it.
    When it stays silent
        With autocast and float32 weights.
    Cost
        None for PyTorch's optimizers with float32 weights; for others one check of the weights per
        step.
    """
    if isinstance(trip.evidence, BadUpdate):
        return _report(trip, trip.evidence)
    scenario = scenario_of(trip) if trip.in_update else None
    if scenario is not None:
        scenario.reason = replace(
            scenario.reason, verdict=f"{scenario.reason.verdict} in the weight update"
        )
        return forward_finding("nonfinite/update", scenario, phase="optimizer")
    return _found_in_weights(trip)


OFF_ZERO = (
    "Add an epsilon to the divisor (`sqrt(v) + eps`), or clamp it, before the division. Skip "
    "parameters without a gradient."
)
COUNT_FROM_ONE = (
    "Fix the divisor where it is computed: it is a Python number that is 0 in this step. A "
    "correction like 1 - beta ** t is 0 for t = 0, so increment the step count before using it."
)


def _report(trip: Trip, bad: BadUpdate) -> Finding | None:
    names = ", ".join(bad.weights[:3]) + (
        f" and {len(bad.weights) - 3} more" if len(bad.weights) > 3 else ""
    )
    if bad.eps is None:
        return _own_optimizer(trip, bad, names)
    spot = Spot.of_site(trip.built[0]) if trip.built else None
    return trip_finding(
        trip,
        "nonfinite/update",
        spot=spot,
        verdict=f"{bad.optimizer}'s step makes {names} NaN or Inf in float16; the gradients are "
        "finite",
        why=f"eps={bad.eps:g} rounds to 0 in float16, and so do the squares of small gradients. "
        "The update divides by zero.",
        fix="Keep the weights in float32 and use autocast (with a GradScaler for float16) "
        "instead of `.half()`.",
        op=bad.optimizer,
        phase="optimizer",
        counterfactual="the same step in float32 is finite" if bad.in_float32 else None,
        confidence=Confidence.PROVEN if bad.in_float32 else Confidence.LIKELY,
        replayed=False,
    )


def _own_optimizer(trip: Trip, bad: BadUpdate, names: str) -> Finding | None:
    """Report a custom optimizer that made its weights NaN or Inf."""
    remade = bad.remade
    if not isinstance(remade, Remade):
        return trip_finding(
            trip,
            "nonfinite/update",
            spot=Spot.of_site(trip.stack[0]) if trip.stack else None,
            verdict=f"{bad.optimizer}'s step made {names} NaN or Inf; the gradients were finite",
            why="All gradients and weights were checked before the step and were finite. After "
            "the step the weights are not.",
            fix="Check the divisors and dtypes of the update; print the weights before and after "
            "`step()`.",
            op=bad.optimizer,
            phase="optimizer",
            confidence=Confidence.LIKELY,
            replayed=False,
        )
    divides = "div" in remade.op
    of = f" {'by' if divides else 'of'} 0" if remade.of_zero else ""
    whose = f"{bad.optimizer}'s step" if bad.optimizer else "the previous update"
    where = (
        f" The 0 was computed at {remade.made_by.file}:{remade.made_by.line}."
        if remade.made_by is not None
        else ""
    )
    return trip_finding(
        trip,
        "nonfinite/update",
        spot=remade.spot,
        patch=nonzero_divisor(remade.spot)
        if divides and remade.of_zero and not remade.is_plain
        else None,
        verdict=f"{remade.op}{of} in {whose} made {names} {trouble_text(remade.trouble)}; the "
        "gradients are finite",
        why=f"The operands of {remade.op} are finite and its result is not: a divisor is zero, or "
        "a square overflowed. The weights were finite before this step and are not after it."
        if bad.optimizer
        else f"The operands of {remade.op} are finite and its result is not: a divisor is zero, "
        "or a square overflowed. All earlier gradients were checked and finite; the weights "
        "no longer are.",
        fix=(COUNT_FROM_ONE if divides and remade.is_plain else OFF_ZERO) + where,
        op=remade.op,
        phase="optimizer",
        chain=(remade.made_by,) if remade.made_by is not None else (),
        counterfactual=_evidence(bad, remade),
        confidence=Confidence.PROVEN if bad.optimizer or remade.is_exact else Confidence.LIKELY,
        replayed=False,
    )


def _evidence(bad: BadUpdate, remade: Remade) -> str:
    if bad.optimizer:
        return "repeating the step with finite weights gives the same result at this call"
    if remade.is_exact:
        return (
            "running the same lines again on the earlier weights and gradients loses the same "
            "elements"
        )
    if remade.with_zeros:
        return (
            "the gradients were not kept; with zeros instead, the same lines lose the same elements"
        )
    return "running the same lines again with finite weights gives the same result at this call"


def _found_in_weights(trip: Trip) -> Finding | None:
    """The forward pass started with weights that were not finite."""
    born = trip.born
    if born is None and trip.notice is Notice.INPUT and trip.consequence is Consequence.APPLIED:
        return _manual_update(trip)
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
        return trip_finding(
            trip,
            "nonfinite/uninitialised",
            spot=trail.spot,
            verdict=f"{name} is NaN or Inf before the first step",
            why="No update has run yet: the weight was created, initialised or loaded with NaN "
            "or Inf.",
            fix="Initialise the weight: torch.empty and torch.Tensor(n) leave it uninitialised.",
            op=trail.op or _operation(trail.spot),
            patch=_zeros(trail.spot),
            module=trail.module,
            chain=trail.hops,
        )
    if (found := _bad_rate(trip, name)) is not None:
        return found
    site = _last_update(trip)
    return trip_finding(
        trip,
        "nonfinite/update",
        spot=Spot.of_site(site) if site is not None else None,
        verdict=f"{name} was already NaN or Inf before this step"
        + ("; every gradient was finite" if not trip.unseen else ""),
        why="A hook updates the weights inside backward, then clears their gradients, so Whence "
        "could not check them: either a gradient of the previous step or the update itself was "
        "not finite."
        if trip.unseen
        else "All earlier gradients were checked and finite. The update itself, or other code "
        "that writes weights, produced it.",
        fix="Check the divisors and dtypes of the update; print the weights before and after "
        "`step()`."
        if not trip.unseen
        else "Check in the hook that the gradient is finite: torch.isfinite(weight.grad).all().",
        phase="optimizer",
        confidence=Confidence.LIKELY,
    )


def _lost_before(trip: Trip, loss: torch.Tensor) -> Finding | None:
    """Report a step that was not recorded: its weights have not changed since it began."""
    lost = [each for each in weights_under(loss) if trouble_in(each)]
    site = _last_update(trip)
    if not lost or site is None:
        return None
    name = trip.modules.name_of(lost[0]) or next(iter(trip.weights), "a weight")
    if (found := _bad_rate(trip, name)) is not None:
        return found
    return trip_finding(
        trip,
        "nonfinite/update",
        spot=Spot.of_site(site),
        verdict=f"{name} was already NaN or Inf before this step; every gradient was finite",
        why="All earlier gradients were checked and finite, so the update computed from them was "
        "not.",
        fix="Check the divisors of the update: the norm of a zero gradient, a second moment.",
        phase="optimizer",
        confidence=Confidence.LIKELY,
        replayed=False,
    )


def _bad_rate(trip: Trip, name: str) -> Finding | None:
    """Report a learning rate that is not finite, from a schedule that the program computes."""
    groups = trip.optimizer.param_groups if isinstance(trip.optimizer, Optimizer) else []
    bad = next(
        (float(each["lr"]) for each in groups if not math.isfinite(float(each.get("lr", 0.0)))),
        None,
    )
    if bad is None:
        return None
    return trip_finding(
        trip,
        "nonfinite/update",
        spot=set_at(trip) or (Spot.of_site(trip.stack[0]) if trip.stack else None),
        verdict=f"the learning rate is {number_text(bad)}, and {name} is NaN or Inf; the "
        "gradients were finite",
        why="An update is the gradient times the learning rate. All earlier gradients were "
        "checked and finite; the learning rate is not.",
        fix="Check the formula of the learning rate for this step: a division by zero, a "
        "negative value under a root or power.",
        phase="optimizer",
        confidence=Confidence.LIKELY,
        replayed=False,
    )


def _manual_update(trip: Trip) -> Finding | None:
    """Report weights that the program computes itself from `torch.func` gradients."""
    name = trip.weights[0] if trip.weights else "the argument of the gradient function"
    return trip_finding(
        trip,
        "nonfinite/update",
        spot=None,
        verdict=f"{name} is NaN or Inf when this step computes gradients; the previous gradients "
        "were finite",
        why="The results of torch.func were checked in every step and were finite. The program's "
        "own update of the weights is not.",
        fix="Check the divisors of the update: the norm of a zero gradient, a second moment.",
        phase="optimizer",
        confidence=Confidence.LIKELY,
    )


def _operation(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    return operation_in(node) if node is not None else None


def _zeros(spot: Spot | None) -> str | None:
    """A diff that replaces `torch.empty` with `torch.zeros`."""
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
