"""Activation checkpointing that drops gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding
from whence.source.edits import diff_of, give_by_name
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.tape import Call, CustomFunction


@audit_rule("gradient/checkpoint-cut", Rank.CAUSE)
def checkpoint_cut(audit: Audit) -> Finding | None:
    """Activation checkpointing drops gradients.

    What happened
        Reentrant checkpointing runs its region without a graph, and recomputes it in backward only
        if one of its inputs requires grad. None did, so the weights inside receive no gradient.
    Why it matters
        PyTorch prints one warning. The loss looks normal, and the checkpointed layers never learn.
    How it is detected
        A checkpointed call on the tape has trainable weights inside and a result that does not
        require grad.
    How to fix it
        Pass `use_reentrant=False`.
    When it stays silent
        If an input requires grad, if all weights inside are frozen, or under `no_grad`.
    Cost
        A pass over the tape after some steps.
    """
    calls = list(audit.tape.calls)
    cut: dict[Site, tuple[Call, set[int]]] = {}
    for call in calls:
        if (
            not isinstance(call.func, CustomFunction)
            or call.name != "CheckpointFunction"
            or not call.grad_mode
            or any(each.requires_grad for each in call.outputs)
            or call.site is None
        ):
            continue
        inside = [
            tensor
            for inner in _within(call, calls)
            for value in inner.operands
            if (tensor := value.tensor) is not None and tensor.requires_grad and tensor.is_leaf
        ]
        lost = {id(each) for each in inside if each.grad is None and audit.is_owned(each)}
        cut.setdefault(call.site, (call, set()))[1].update(lost)
    for site, (call, lost) in cut.items():
        if lost:
            return silent_finding(
                audit,
                "gradient/checkpoint-cut",
                spot=Spot.of_site(site),
                step=call.step,
                call=call,
                op="checkpoint",
                verdict=f"checkpointing gives {len(lost)} weights no gradient: none of its inputs "
                "requires grad",
                what="the result of checkpoint does not require grad",
                why="Reentrant checkpointing runs without a graph, and recomputes the region in "
                "backward only if an input requires grad.",
                fix="Pass use_reentrant=False to checkpoint.",
                patch=_not_reentrant(site),
            )
    return None


def _not_reentrant(site: Site) -> str | None:
    node = site.node()
    if not isinstance(node, ast.Call) or last_name(node.func) != "checkpoint":
        return None
    return diff_of(give_by_name(site.filename, node, "use_reentrant", "False"))


def _within(call: Call, calls: list[Call]) -> Iterator[Call]:
    """The calls inside a call: they ended just before it."""
    at = next(number for number, each in enumerate(calls) if each is call)
    return takewhile(lambda each: each.inner, reversed(calls[:at]))
