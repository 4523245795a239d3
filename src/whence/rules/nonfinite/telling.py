"""Build a finding from a trip, the record of a NaN or Inf: shared by all nonfinite rules."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from whence.finding import (
    Confidence,
    Finding,
    Hop,
    Operand,
    Origin,
    Proof,
    Sample,
    Severity,
    Symptom,
)
from whence.source.spots import Spot
from whence.tape.replay import trouble_in
from whence.tape.tape import Call, CompiledRegion
from whence.tape.trip import Consequence, Notice, Trip


def number_text(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return f"{number:.4g}"


def trouble_text(trouble: str) -> str:
    return "NaN" if trouble == "nan" else "Inf"


def place_text(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else "its only element"


def symptom_of(trip: Trip) -> Symptom | None:
    """The line where the NaN or Inf was noticed, and its effect there."""
    if not trip.stack:
        return None
    spot = Spot.of_site(trip.stack[0])
    return Symptom(
        file=spot.file, line=spot.line, code=spot.code, step=trip.step, what=what_of(trip)
    )


def what_of(trip: Trip) -> str:
    if trip.exception is not None and trip.notice is Notice.OPERAND:
        first = str(trip.exception).strip().splitlines()
        return f"{type(trip.exception).__name__}: {first[0] if first else ''}"
    if trip.notice is Notice.GRADIENT:
        names = trip.weights
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"the gradient of {names[0] if names else 'a weight'}{more} is not finite"
    if trip.notice is Notice.STATE:
        return "no visible effect here: the step's loss may be finite"
    if trip.notice is Notice.INPUT:
        receiver = (
            "the gradient computation" if trip.consequence is Consequence.APPLIED else "the model"
        )
        return f"{receiver} receives NaN or Inf"
    number = (
        trip.observed.detach().reshape(-1)[0].item()
        if trip.observed is not None and trip.observed.numel() == 1
        else math.nan
    )
    after = {
        Consequence.APPLIED: "",
        Consequence.REPORTED: " (its gradients are finite)",
        Consequence.SKIPPED: " (the step was not taken)",
        Consequence.ENDED: " (the program stopped here)",
    }[trip.consequence]
    return f"the loss is {number_text(float(number))}{after}"


def replay_text(trip: Trip) -> str | None:
    if trip.run is None:
        return None
    how = "bit-identical" if trip.certified else "not bit-identical"
    if trip.plan is not None and not trip.plan.own:
        how += f", from the recording of step {trip.plan.recorded_at}"
    if trip.plan is not None and any(
        isinstance(call.func, CompiledRegion) for call in trip.plan.calls
    ):
        how += "; compiled code was run eagerly"
    return f"{how}; {trip.manner}" if trip.manner else how


def operand_hops(calls: tuple[Call, ...], skip: Spot | None, most: int = 4) -> tuple[Hop, ...]:
    """The calls that propagated the NaN or Inf, one for each line."""
    hops: list[Hop] = []
    taken = {(skip.file, skip.line)} if skip is not None else set()
    for call in calls:
        if call.site is None:
            continue
        spot = Spot.of_site(call.site)
        if (spot.file, spot.line) not in taken:
            taken.add((spot.file, spot.line))
            hops.append(spot.hop(f"{call.name} propagates it"))
    return tuple(hops[:most])


def module_path(trip: Trip, call: Call | None) -> str | None:
    module = getattr(call.module, "module", None) if call is not None else None
    return trip.modules.path_of(module) if isinstance(module, nn.Module) else None


def severity_of(trip: Trip) -> Severity:
    if (
        trip.consequence in (Consequence.SKIPPED, Consequence.REPORTED)
        and trip.notice is not Notice.STATE
    ):
        return Severity.WARNING
    return Severity.ERROR


def trip_finding(
    trip: Trip,
    rule: str,
    *,
    spot: Spot | None,
    verdict: str,
    why: str,
    fix: str,
    op: str | None = None,
    phase: str = "program",
    module: str | None = None,
    sample: Sample | None = None,
    chain: tuple[Hop, ...] = (),
    operands: tuple[Operand, ...] = (),
    patch: str | None = None,
    counterfactual: str | None = None,
    severity: Severity | None = None,
    confidence: Confidence | None = None,
    replayed: bool = True,
) -> Finding | None:
    symptom = symptom_of(trip)
    if spot is None and symptom is None:
        return None
    if spot is None:
        spot = Spot.of_site(trip.stack[0])
    if symptom is None:
        symptom = Symptom(spot.file, spot.line, spot.code, what_of(trip), trip.step)
    if confidence is None:
        confidence = Confidence.PROVEN if trip.certified and counterfactual else Confidence.LIKELY
    text = replay_text(trip) if replayed else None
    if text is None and trip.could_not and replayed:
        text = f"the step could not be replayed ({trip.could_not})"
    ends = {(spot.file, spot.line), (symptom.file, symptom.line)}
    return Finding(
        rule=rule,
        severity=severity or severity_of(trip),
        confidence=confidence,
        verdict=verdict,
        origin=Origin(
            file=spot.file,
            line=spot.line,
            code=spot.code,
            function=spot.function,
            op=op.removeprefix("special_") if op is not None else None,
            module=module,
            phase=phase,
            step=trip.step,
            sample=sample,
        ),
        symptom=symptom,
        chain=tuple(hop for hop in chain if (hop.file, hop.line) not in ends),
        why=why,
        fix=fix,
        patch=patch,
        proof=Proof(replay=text, counterfactual=counterfactual),
        span=spot.span,
        operands=operands,
    )


def loss_text(tensor: torch.Tensor | None) -> str | None:
    """A finite outcome as text, or None if it is not finite."""
    if tensor is None or trouble_in(tensor):
        return None
    if tensor.numel() == 1:
        return number_text(float(tensor.detach().item()))
    return "finite"


def at(tensor: torch.Tensor, index: tuple[int, ...], shape: Any) -> float | None:
    """The operand's element for `index` of the result, if broadcasting defines it."""
    try:
        return float(tensor.detach().broadcast_to(shape)[index].item())
    except (RuntimeError, IndexError, TypeError):
        return None
