"""Whole numbers that went through a real type which does not have them all."""

from __future__ import annotations

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.lineage.properties import HasDtype
from whence.lineage.trail import trace
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import dtype_name, spot_at, tell_silent

MOST = 0.05


@audit_rule("dtype/narrowed", Rank.CAUSE)
def coarse_numbers(audit: Audit) -> Finding | None:
    """A cast changed values: ids went through a real type in which their neighbours are the same number."""
    for site, cut in audit.tape.cuts.items():
        call = cut.call
        if call is None or cut.lost or cut.coarse < MOST * cut.seen or not call.operands:
            continue
        given = call.operands[0]
        limit = int(2 / torch.finfo(given.dtype).eps)
        trail = trace(given, HasDtype(given.dtype), audit)
        kind = dtype_name(given.dtype)
        return tell_silent(
            audit,
            "dtype/narrowed",
            spot=trail.spot or spot_at(site),
            symptom=spot_at(site),
            step=call.step,
            op=trail.op,
            phase=trail.phase,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"whole numbers up to {int(cut.largest)} went through {kind}, which has every whole number only up to {limit}",
            what=f"{cut.coarse} of {cut.seen} numbers that {call.name} makes whole again are beyond that",
            why=f"Beyond {limit} a {kind} skips whole numbers: ids that differ by one become the same id.",
            fix=f"Keep ids in an integer type from the start, apart from columns that need {kind}.",
            chain=trail.hops,
        )
    return None
