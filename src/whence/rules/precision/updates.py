"""Updates that low-precision weights lose to rounding."""

from __future__ import annotations

import torch

from whence.finding import Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.rules.precision.narrowing import where_narrowed
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import dtype_name, silent_finding
from whence.source.spots import Spot

ENOUGH = 3


@audit_rule("precision/lost-updates", Rank.CALL)
def lost_updates(audit: Audit) -> Finding | None:
    """Low-precision weights lose their updates to rounding.

    What happened
        The weights are bfloat16 or float16. Updates smaller than half the distance to the next
        representable value are rounded away, and the weight does not change.
    Why it matters
        Most of the model does not change, whatever the gradients are; training is slow or stalls.
    How it is detected
        Elements with a gradient that a step leaves bit-identical are counted over several steps;
        the same step on float32 copies changes them. The finding points to where the weight that
        loses most got its dtype: a cast of a module, a layer, a parameter, or the default dtype.
    How to fix it
        Use float32 weights, with autocast for the computation.
    When it stays silent
        Small shares of lost updates, float32 weights, learning rates of zero.
    Cost
        A copy of low-precision weights in the first twelve steps; none for float32 weights.
    """
    seen = [each for each in audit.loop.of(Kind.LOST) if each.detail["aimed"]]
    bad = [
        each
        for each in seen
        if each.detail["kept"] > 0.5 * each.detail["aimed"]
        and (each.detail["in_float32"] or 0.0) < 0.1
        and each.detail["in_float32"] is not None
    ]
    if len(bad) < ENOUGH or len(bad) < 0.7 * len(seen):
        return None
    share = sum(each.detail["kept"] for each in bad) / sum(each.detail["aimed"] for each in bad)
    dtype: torch.dtype = bad[-1].detail["dtype"]
    weight = bad[-1].detail["worst"]()
    entry = next((each for each in reversed(audit.built) if each.steps), None)
    built = Spot.of_site(entry.stack[0]) if entry is not None and entry.stack else None
    return silent_finding(
        audit,
        "precision/lost-updates",
        spot=(where_narrowed(audit, weight) if weight is not None else None) or built,
        symptom=built,
        step=bad[-1].step,
        op=entry.kind if entry is not None else None,
        phase="optimizer",
        severity=Severity.WARNING,
        verdict=f"{share:.0%} of the updates are rounded away: the weights are {dtype_name(dtype)}",
        what=f"in {len(bad)} steps, {share:.0%} of the elements with a gradient did not change",
        why=f"{dtype_name(dtype)} has {'8' if dtype is torch.bfloat16 else '11'} significant bits; "
        "an update below half the last bit is rounded away.",
        fix="Keep float32 weights and use torch.autocast for the computation.",
        counterfactual="the same step on float32 copies leaves "
        f"{bad[-1].detail['in_float32']:.0%} of them unchanged",
    )
