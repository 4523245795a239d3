"""Run the rules on a failure."""

from __future__ import annotations

from dataclasses import replace

from whence.finding import Finding, described
from whence.rerun.permission import refusals, with_gap
from whence.rules.rule import Rank, Rule, all_rules
from whence.source.interrupts import is_interrupt
from whence.tape.failed import FailedCall


def explain(failed: FailedCall) -> list[Finding]:
    """The finding of the first rule that applies, and a second one if it hides another fault."""
    if any(each.is_nested for each in failed.tensors()):
        failed.troubles.append("failures of calls with nested tensors, which have no single shape")
        return []
    for each in all_rules():
        found = _run_rule(each, failed)
        if found is not None:
            hidden = _hidden_fault(failed, found)
            return [found, hidden] if hidden is not None else [found]
    return []


def _hidden_fault(failed: FailedCall, first: Finding) -> Finding | None:
    """PyTorch reports a dtype error before a shape error: run the shape rules as well."""
    if not first.rule.startswith("dtype/"):
        return None
    for each in all_rules():
        if (
            each.family == "shape"
            and each.rank is not Rank.GENERAL
            and (found := _run_rule(each, failed)) is not None
        ):
            what = "hidden behind the dtype error: it raises as soon as that is fixed"
            return replace(found, symptom=replace(found.symptom, what=what))
    return None


def _run_rule(rule: Rule, failed: FailedCall) -> Finding | None:
    """Run one rule; a rule that fails must not stop the others."""
    if rule.diagnose is None:
        return None
    before = refusals()
    try:
        found = rule.diagnose(failed)
        return with_gap(found, before) if found is not None else None
    except Exception as error:
        if is_interrupt(error):
            raise
        failed.troubles.append(
            f"{rule.id} failed on {failed.name} ({described(error).splitlines()[0]})"
        )
        return None
