"""Integers that passed through a float dtype that cannot represent all of them."""

from __future__ import annotations

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.lineage.properties import HasDtype
from whence.lineage.trail import trace
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import dtype_name, silent_finding, spot_at

MOST = 0.05


@audit_rule("dtype/narrowed", Rank.CAUSE)
def inexact_integers(audit: Audit) -> Finding | None:
    """A cast changed values: ids passed through a float dtype that merges neighbouring ids."""
    for site, cut in audit.tape.cuts.items():
        call = cut.call
        if call is None or cut.lost or cut.coarse < MOST * cut.seen or not call.operands:
            continue
        given = call.operands[0]
        limit = int(2 / torch.finfo(given.dtype).eps)
        trail = trace(given, HasDtype(given.dtype), audit)
        kind = dtype_name(given.dtype)
        return silent_finding(
            audit,
            "dtype/narrowed",
            spot=trail.spot or spot_at(site),
            symptom=spot_at(site),
            step=call.step,
            op=trail.op,
            phase=trail.phase,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"integers up to {int(cut.largest)} passed through {kind}, "
            f"which is exact only up to {limit}",
            what=f"{cut.coarse} of {cut.seen} values that {call.name} converts back are larger",
            why=f"Above {limit}, {kind} cannot represent every integer, so ids that differ by one "
            "can become equal.",
            fix=f"Keep ids in an integer dtype from the start, separate from {kind} columns.",
            chain=trail.hops,
        )
    return None
