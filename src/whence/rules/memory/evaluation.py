"""Evaluation builds graphs that nothing uses.

What happened
    A model in eval mode runs with gradients on, and no backward uses the graph. Where the results
    are collected, the graphs of the whole evaluation are alive at once.
Why it matters
    An evaluation takes as much memory as training, or many times as much, and runs out of memory at
    batch sizes that work in training.
How it is detected
    Recorded passes of a model in eval mode with gradients on, whose results reach no backward and
    are read. Their activations are added up.
How to fix it
    Use `with torch.no_grad():` or `torch.inference_mode()`.
When it stays silent
    For evaluations that need gradients (forces, attacks). It is a note if the memory is small.
Cost
    A check of a few recorded passes.
"""

from __future__ import annotations

import ast

from whence.finding import Finding, Severity
from whence.ledgers.audit import Audit
from whence.lineage.ancestry import behind_losses
from whence.rules.memory.growth import LOUD_BYTES, size_text
from whence.rules.optimizer.modes import is_read
from whence.rules.optimizer.switching import training_sites
from whence.rules.rule import audit_rule
from whence.rules.shape.layers import root_of
from whence.rules.telling import silent_finding
from whence.source.blocks import has_in_it, is_run_as_written, part_around
from whence.source.edits import diff_of
from whence.source.spots import Spot
from whence.source.statements import decorate, reached, wrap
from whence.source.text import enclosing
from whence.tape.scopes import Scope
from whence.tape.tape import Call

JOINS = frozenset({"cat", "stack", "concat", "concatenate", "vstack", "hstack"})


@audit_rule("memory/eval-graph")
def eval_graph(audit: Audit) -> Finding | None:
    runs: dict[int, list[Call]] = {}
    scopes: dict[int, Scope] = {}
    for call in audit.tape.calls:
        root = root_of(call)
        if (
            root is not None
            and call.grad_mode
            and not root.training
            and root.called_from
            and call.phase == "forward"
        ):
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
    return silent_finding(
        audit,
        "memory/eval-graph",
        spot=Spot.of_site(scopes[key].called_from[0]),
        step=calls[0].step,
        phase="forward",
        op=scopes[key].kind,
        severity=Severity.WARNING if total >= LOUD_BYTES else Severity.INFO,
        verdict="the evaluation builds graphs that no backward uses"
        + (f", and keeps {kept} of them at once" if kept > 1 else ""),
        what=f"{size_text(size)} of activations per batch"
        + (f", {size_text(total)} in total" if kept > 1 else ""),
        why="With gradients on, every result keeps the tensors that backward would need, until "
        "the result itself is freed.",
        fix="Evaluate under torch.no_grad() or torch.inference_mode().",
        patch=_without_gradients(audit, scopes[key], used),
    )


def _results(runs: dict[int, list[Call]]) -> set[int]:
    return {id(value) for calls in runs.values() for value in calls[-1].outputs}


def _without_gradients(audit: Audit, scope: Scope, used: set[int]) -> str | None:
    """Put an evaluating function, or the loop or call in it, under `torch.no_grad()`."""
    trains = {site for call in audit.tape.calls if call.number in used for site in call.stack}
    if not trains:
        return None
    trains |= training_sites(audit.loop)
    # A line that also trains is not changed: its callers decide about gradients.
    way = scope.called_from
    number = next((number for number, each in enumerate(way) if each not in trains), None)
    node = way[number].node() if number is not None and is_run_as_written(way, number) else None
    if number is None or node is None:
        return None
    site = way[number]
    name, imported = reached(site.filename, "torch", "no_grad")
    function = enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    here = [each for each in trains if each.filename == site.filename]
    if isinstance(function, ast.FunctionDef) and not any(
        has_in_it(function, each) for each in here
    ):
        decorated = (
            decorate(site.filename, function, f"{name}()") if not _yields(function) else None
        )
        if decorated is not None:
            return diff_of(*imported, decorated)
    part = part_around(site, without=trains)
    if part is None or _yields(part):
        return None
    return diff_of(*imported, wrap(site.filename, [part], f"with {name}():"))


def _yields(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom | ast.Await) for each in ast.walk(node))
