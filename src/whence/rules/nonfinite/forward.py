"""NaN or Inf that a call of the forward pass computed from finite operands."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from whence.finding import Confidence, Finding, Hop, Operand, Severity
from whence.lineage.births import (
    Contents,
    Guessed,
    attempt,
    contents_before,
    fails_for_any,
    first_bad,
)
from whence.lineage.gradients import line_inside
from whence.lineage.properties import HALVES, HasDtype
from whence.lineage.rows import Rows, blamed_rows, is_finite_outcome, only_sample
from whence.lineage.trail import trace
from whence.rules.loss.endless import fell_without_bound
from whence.rules.nonfinite.naming import operand_name
from whence.rules.nonfinite.numbers import (
    count_at_least_one,
    fix_of_zero,
    nonfinite_origin,
    zero_origin,
)
from whence.rules.nonfinite.reasons import (
    Facts,
    Reason,
    bad_number,
    reason_by_rehearsal,
    reason_by_what_is_left,
    reason_of,
)
from whence.rules.nonfinite.remedies import Remedy, in_float32, is_same_line, remedy_for
from whence.rules.nonfinite.shares import shift_of
from whence.rules.nonfinite.telling import (
    at,
    loss_text,
    module_path,
    number_text,
    operand_hops,
    place_text,
    trip_finding,
)
from whence.rules.nonfinite.treatment import treat
from whence.rules.rule import Rank, trip_rule
from whence.rules.telling import describe
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import last_name, parent_of, text_of
from whence.tape.replay import Run, Unreplayable, is_weight, trouble_in
from whence.tape.tape import Call, Value, map_leaves
from whence.tape.trip import Born, Consequence, Notice, Trip


@dataclass(slots=True)
class Scenario:
    """The call of the forward pass that first gave NaN or Inf, with its operands as they were."""

    trip: Trip
    born: Born
    call: Call
    output: torch.Tensor
    index: tuple[int, ...]
    operands: list[tuple[Value, torch.Tensor]]
    reason: Reason

    @property
    def spot(self) -> Spot | None:
        return Spot.of_site(self.call.site) if self.call.site is not None else None


def scenario_of(trip: Trip) -> Scenario | None:
    born = trip.born
    if born is None or born.call is None or born.output is None or trip.notice is Notice.GRADIENT:
        return None
    call = born.call
    before = contents_before(trip, call).of
    operands = [
        (each, tensor)
        for each in dict.fromkeys(call.operands)
        if (tensor := before(each)) is not None
    ]
    output = Contents(trip.tape, trip.run).of(born.output)
    if output is None or not trouble_in(output):
        output = attempt(call, before, born.output)
    if output is None:
        guess = attempt(call, Guessed(trip.tape, trip.run, 1.0).of, born.output)
        if guess is None or not trouble_in(guess) or not operands:
            return None
        return Scenario(trip, born, call, guess, (), operands, reason_by_what_is_left(call))
    if call.operands and not operands:
        # Freed: they may have been the trouble, unless the result is not finite for any operands.
        if not fails_for_any(call, born.output, trip.tape, trip.run):
            return None
        return Scenario(trip, born, call, output, (), operands, reason_by_what_is_left(call))
    index = first_bad(output, born.trouble)
    facts = Facts(call, [tensor for _, tensor in operands], output, index, born.mask)
    number = trip.live.rehearsed if trip.live is not None else None
    reason = reason_of(facts) if number is None else reason_by_rehearsal(facts, number)
    return Scenario(trip, born, call, output, index, operands, reason)


def _operands(scenario: Scenario) -> tuple[Operand, ...]:
    shown = []
    for value, tensor in scenario.operands[:4]:
        element = (
            at(tensor, scenario.index, scenario.output.shape)
            if scenario.index or not tensor.dim()
            else None
        )
        where = (
            f"  at {place_text(scenario.index)}: {number_text(element)}"
            if element is not None
            else ""
        )
        shown.append(
            Operand(
                operand_name(scenario.call, value, scenario.trip.modules), describe(tensor) + where
            )
        )
    return tuple(shown)


def _earlier(scenario: Scenario) -> tuple[Hop, ...]:
    """The call that produced the bad operand: the exp that underflowed to the 0 under the log."""
    hops: list[Hop] = []
    for value, tensor in scenario.operands:
        call = value.call
        element = at(tensor, scenario.index, scenario.output.shape)
        if (
            call is None
            or call.site is None
            or element is None
            or not scenario.reason.blames(element)
        ):
            continue
        if _is_rewritten(value, scenario.trip):
            continue
        spot = Spot.of_site(call.site)
        hops.append(spot.hop(f"{call.name} gave {number_text(element)} at that element"))
    return tuple(hops[:2])


def _is_rewritten(value: Value, trip: Trip) -> bool:
    """Whether an unrecorded step may have written to a weight since its last known call."""
    is_own = trip.plan is None or trip.plan.own
    return is_weight(value) and (trip.tape.has_gaps or not is_own)


def _alone(scenario: Scenario, remedy: Remedy) -> bool:
    """Whether the call alone is finite with its operand clamped."""
    known = dict(scenario.operands)
    place = scenario.call.args[remedy.place] if remedy.place < len(scenario.call.args) else None
    if not isinstance(place, Value) or place not in known:
        return False
    known[place] = known[place].clamp(remedy.low, remedy.high)
    result = attempt(scenario.call, known.get, scenario.born.output)
    return result is not None and not trouble_in(result)


@dataclass(frozen=True, slots=True)
class Cure:
    """A change that helped when it was run: in words, the outcome, and the change as a diff."""

    words: str
    outcome: torch.Tensor | None
    patch: str | None = None


def clamped(scenario: Scenario) -> Cure | None:
    """Replay the step with the operand clamped to the range where the operation is defined."""
    trip, call = scenario.trip, scenario.call
    remedy = remedy_for(call, [tensor for _, tensor in scenario.operands])
    if remedy is None:
        return None
    if trip.plan is None or call not in trip.plan.calls or trip.notice is Notice.STATE:
        # The call ran before the step began, or there is no loss: only the call alone can be run.
        return (
            Cure(remedy.words(call), None, remedy.patch(call)) if _alone(scenario, remedy) else None
        )
    if (shift := shift_of(call, trip.plan)) is not None:
        with suppress(Unreplayable, RuntimeError, TypeError):
            outcome = trip.outcome(trip.again(alter=shift.alter))
            if loss_text(outcome) is not None and shift.patch is not None:
                return Cure(shift.words, outcome, shift.patch)
    treated = treat(trip, call, remedy)
    return Cure(treated.words, treated.outcome, treated.patch) if treated is not None else None


def _uncorrected(scenario: Scenario) -> Cure | None:
    """Try `correction=0`: the spread of one element is then 0, and the program adds an epsilon."""
    site, tensor = scenario.call.site, scenario.operands[0][1] if scenario.operands else None
    node = site.node() if site is not None else None
    if (
        site is None
        or tensor is None
        or not isinstance(node, ast.Call)
        or last_name(node.func) not in ("std", "var")
    ):
        return None
    outer = parent_of(node)
    while isinstance(outer, ast.Call | ast.Attribute):
        outer = parent_of(outer)
    added = isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Add)
    if (
        not added
        or node.keywords
        or node.args
        or trouble_in(getattr(tensor, scenario.call.name)(correction=0))
    ):
        return None
    return Cure(
        "with correction=0",
        None,
        diff_of(
            replace_node(site.filename, node, f"{text_of(site.filename, node.func)}(correction=0)")
        ),
    )


def _widened(scenario: Scenario) -> Cure | None:
    """Replay the step with this one call in float32."""
    trip, call = scenario.trip, scenario.call
    if trip.plan is None or call not in trip.plan.calls:
        return None

    def widen(each: Call, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return (
            map_leaves(_in_float32, (args, kwargs)) if is_same_line(each, call) else (args, kwargs)
        )

    try:
        outcome = trip.outcome(trip.again(alter=widen))
    except (Unreplayable, RuntimeError, TypeError):
        return None
    if loss_text(outcome) is None:
        return None
    return Cure(
        f"with {call.name} in float32", outcome, None if call.autocast else in_float32(call)
    )


def _in_float32(thing: Any) -> Any:
    return thing.float() if isinstance(thing, torch.Tensor) and thing.dtype in HALVES else thing


def _zeroed(scenario: Scenario) -> Cure | None:
    """Replay the step with 0 in place of the call's non-finite results."""
    trip, call = scenario.trip, scenario.call
    if trip.plan is None or call not in trip.plan.calls or trip.target in call.outputs:
        return None

    def amend(each: Call, run: Run) -> None:
        if is_same_line(each, call):
            for value in each.outputs:
                tensor = run.contents.get(value)
                if tensor is not None and trouble_in(tensor):
                    run.contents[value] = torch.nan_to_num(tensor, 0.0, 0.0, 0.0)

    try:
        run = trip.again(amend=amend)
    except (Unreplayable, RuntimeError):
        return None
    outcome = trip.outcome(run)
    return (
        Cure(f"with 0 instead of the result of {call.name}", outcome)
        if loss_text(outcome) is not None
        else None
    )


def _rows(scenario: Scenario) -> Rows | None:
    trip = scenario.trip
    if trip.run is None or not scenario.output.dim():
        return None
    return blamed_rows(
        trip, ~torch.isfinite(scenario.output), lambda run: is_finite_outcome(trip, run)
    )


def _counterfactual(rows: Rows | None, cure: Cure | None) -> str | None:
    parts = [f"{rows.text()}, the loss is {loss_text(rows.outcome)}"] if rows is not None else []
    if cure is not None:
        came = (
            f"the loss is {loss_text(cure.outcome)}"
            if cure.outcome is not None
            else "the result is finite"
        )
        parts.append(f"{cure.words}, {came}")
    return "; ".join(parts) or None


def _mask_hops(scenario: Scenario) -> tuple[Hop, ...]:
    """Where an all-masking mask was made, and where it wrote -inf."""
    born = scenario.born
    writes = born.mask.call if born.mask is not None else None
    user = writes or scenario.call
    at = Spot.of_site(writes.site) if writes is not None and writes.site is not None else None
    hops = (at.hop(f"{user.name} writes the -inf"),) if at is not None else ()
    mask = next((each for each in user.operands if each.dtype is torch.bool), None)
    trail = trace(mask, HasDtype(torch.bool), scenario.trip) if mask is not None else None
    made = trail.spot if trail is not None else None
    if (
        trail is None
        or made is None
        or any(each is not None and _is_in_line(each, made) for each in (at, scenario.spot))
    ):
        return hops
    whole = next(
        (each for each in trail.hops if (each.file, each.line) == (made.file, made.line)),
        made.hop(""),
    )
    return (replace(whole, what="the mask is created here"), *hops)


def _is_in_line(one: Spot, other: Spot) -> bool:
    return (one.filename, one.line) == (other.filename, other.line)


def forward_finding(
    rule: str,
    scenario: Scenario,
    *,
    cure: Callable[[Scenario], Cure | None] = clamped,
    severity: Severity | None = None,
    phase: str | None = None,
) -> Finding | None:
    """Build the finding for a call that gave NaN or Inf in the forward pass or another phase."""
    trip, call, reason = scenario.trip, scenario.call, scenario.reason
    rows = _rows(scenario)
    inside = line_inside(trip, call)
    op, spot = inside[:2] if inside is not None else (call.name, scenario.spot)
    number_at = nonfinite_origin(trip, call)
    received = (
        (spot.hop(f"{call.name} receives it"),)
        if number_at is not None and spot is not None
        else ()
    )
    spot = number_at or spot
    if inside is not None:
        what = number_text(float(scenario.output.detach()[scenario.index].item()))
        reason = replace(reason, verdict=f"{op} gave {what} inside {call.name}")
    helped = cure(scenario) or _uncorrected(scenario) or _zeroed(scenario)
    many = int((~torch.isfinite(scenario.output)).sum())
    share = (
        f" Not finite: {many} of {scenario.output.numel()} elements."
        if scenario.output.numel() > 1
        else ""
    )
    return trip_finding(
        trip,
        rule,
        spot=spot,
        verdict=reason.verdict,
        why=f"{reason.why}{share}",
        fix=fix_of_zero(trip, call) or reason.fix,
        op=op,
        phase=phase or call.phase,
        module=module_path(trip, call),
        sample=rows.sample() if rows is not None else only_sample(trip),
        chain=(
            *_mask_hops(scenario),
            *_earlier(scenario),
            *zero_origin(trip, call),
            *received,
            *operand_hops(scenario.born.path, spot),
        ),
        operands=_operands(scenario) if bad_number(call) is None else (),
        patch=(helped.patch if helped is not None else None) or count_at_least_one(call)
        if inside is None
        else None,
        counterfactual=_counterfactual(rows, helped),
        severity=severity,
        confidence=None if trip.run is not None or trip.live is not None else Confidence.PROVEN,
    )


def _is_loss_scale(scenario: Scenario) -> bool:
    """Whether a half-precision loss is multiplied by a constant: a search for a loss scale."""
    factors = [each for each in scenario.call.args if isinstance(each, int | float)]
    return (
        "mul" in scenario.call.name
        and not scenario.output.dim()
        and any(abs(each) > 1 for each in factors)
    )


@trip_rule("nonfinite/overflow", Rank.CAUSE)
def overflow(trip: Trip) -> Finding | None:
    """A half-precision operation overflowed where float32 would not.

    What happened
        A call gave Inf or NaN in float16 or bfloat16. The same call on the same values in float32
        is finite.
    Why it matters
        float16 ends at 65504. Attention scores, sums and squared errors exceed it quickly.
    How it is detected
        The step is replayed. The first call with finite operands and a non-finite result is run
        again in float32.
    How to fix it
        Run this one operation in float32, or scale its operands first. bfloat16 has the range of
        float32.
    When it stays silent
        Under a GradScaler that skips the step, and where float32 is not finite either.
    Cost
        None until a loss or a gradient is not finite.
    """
    scenario = scenario_of(trip)
    if scenario is None or scenario.output.dtype not in HALVES:
        return None
    wide = dict(scenario.operands)
    is_cast = (
        scenario.call.name in ("half", "to", "type", "type_as")
        and scenario.operands[0][1].dtype not in HALVES
    )
    result = (
        scenario.operands[0][1]
        if is_cast
        else attempt(
            scenario.call,
            lambda value: wide[value].float() if wide[value].dtype in HALVES else wide[value],
        )
    )
    if result is None or trouble_in(result):
        return None
    largest = float(result.detach().abs().max())
    kind = str(scenario.output.dtype).removeprefix("torch.")
    top = torch.finfo(scenario.output.dtype).max
    scenario.reason = Reason(
        verdict=f"{scenario.call.name} overflowed in {kind}",
        why=f"{'The values before the cast reach' if is_cast else 'In float32 the result reaches'} "
        f"{largest:.4g}; the largest {kind} is {top:.4g}.",
        fix="Keep the value in float32, or scale it before the cast: a mean instead of a sum."
        if is_cast
        else f"Run {scenario.call.name} in float32 (`.float()` on its operands), or scale the "
        "operands first.",
    )
    return forward_finding(
        "nonfinite/overflow",
        scenario,
        cure=_widened,
        severity=Severity.INFO
        if trip.consequence is Consequence.SKIPPED or _is_loss_scale(scenario)
        else None,
    )


@trip_rule("nonfinite/forward")
def forward(trip: Trip) -> Finding | None:
    """An operation with finite inputs gave NaN or Inf in the forward pass.

    What happened
        The loss is not finite. The step was replayed call by call, and this is the first call whose
        operands are finite and whose result is not: log of zero, a division by zero, an exp that
        overflowed, the mean of an empty tensor, a softmax over a fully masked row.
    Why it matters
        NaN spreads to everything computed from it: the loss, all gradients, and after one update
        all weights.
    How it is detected
        The loss is checked when backward begins, the gradients before an optimizer uses them. The
        step is then replayed from its leaves, and the replay must give the same loss bit for bit.
        Whence traces the NaN back call by call. At each call, it replaces one operand with finite
        values to see whether that operand carries the NaN.
    How to fix it
        Keep the operand in the range where the operation is defined, before the operation: clamp,
        an epsilon, logsumexp, log_softmax, a count of at least one.
    When it stays silent
        For -inf masks that work as intended, NaN that never reaches a weight, and steps that a
        GradScaler skips.
    Cost
        One check of the loss and one of the gradients per step; everything else runs only after one
        is not finite.
    """
    scenario = scenario_of(trip)
    if scenario is None:
        return None
    return fell_without_bound(trip) or forward_finding("nonfinite/forward", scenario)
