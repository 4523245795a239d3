"""Evaluation builds graphs that nobody uses.

What happened
    A model in eval mode runs with gradients on, and no backward uses what it builds. Where the results are collected, the graphs of the
    whole evaluation are alive at once.
Why it matters
    An evaluation takes as much memory as training, or many times as much, and runs out of it with batches that training can do.
How it is detected
    Recorded passes of a model in eval mode with gradients on whose results reach no backward and are read; their activations are counted.
How to fix it
    with torch.no_grad(): or torch.inference_mode().
When it stays silent
    Evaluations that need gradients (forces, attacks). It is a note where the bytes are few.
Cost
    A look at a few recorded passes.
"""

from __future__ import annotations

from whence.finding import Finding, Severity
from whence.ledgers.audit import Audit
from whence.lineage.ancestry import behind_losses
from whence.rules.memory.growth import LOUD_BYTES, size_text
from whence.rules.optimizer.modes import is_read
from whence.rules.rule import audit_rule
from whence.rules.shape.layers import root_of
from whence.rules.telling import tell_silent
from whence.source.spots import Spot
from whence.tape.scopes import Scope
from whence.tape.tape import Call

JOINS = frozenset({"cat", "stack", "concat", "concatenate", "vstack", "hstack"})


@audit_rule("memory/eval-graph")
def eval_graph(audit: Audit) -> Finding | None:
    runs: dict[int, list[Call]] = {}
    scopes: dict[int, Scope] = {}
    for call in audit.tape.calls:
        root = root_of(call)
        if root is not None and call.grad_mode and not root.training and root.called_from and call.phase == "forward":
            runs.setdefault(id(root), []).append(call)
            scopes[id(root)] = root
    if len(runs) < 2 or not any(entry.steps for entry in audit.built):
        return None
    used = behind_losses(audit.tape.calls)
    idle = {
        key: calls
        for key, calls in runs.items()
        if not any(call.number in used for call in calls)
        and any(each.requires_grad for each in calls[-1].outputs)
        and is_read(calls[-1], audit)
    }
    if len(idle) < 2:
        return None
    key, calls = next(iter(idle.items()))
    size = sum(value.bytes for call in calls for value in call.outputs if value.requires_grad)
    kept = max(
        (
            sum(id(value) in _results(idle) for value in call.operands)
            for call in audit.tape.calls
            if call.name in JOINS
        ),
        default=0,
    )
    total = size * max(kept, 1)
    return tell_silent(
        audit,
        "memory/eval-graph",
        spot=Spot.of_site(scopes[key].called_from[0]),
        step=calls[0].step,
        phase="forward",
        op=scopes[key].kind,
        severity=Severity.WARNING if total >= LOUD_BYTES else Severity.INFO,
        verdict="the evaluation builds graphs that no backward uses"
        + (f", and keeps {kept} of them at once" if kept > 1 else ""),
        what=f"{size_text(size)} of activations for each batch" + (f", {size_text(total)} in all" if kept > 1 else ""),
        why="With gradients on, every result keeps what a backward would need, until the result itself is gone.",
        fix="Evaluate under torch.no_grad() (or torch.inference_mode()).",
    )


def _results(runs: dict[int, list[Call]]) -> set[int]:
    return {id(value) for calls in runs.values() for value in calls[-1].outputs}
