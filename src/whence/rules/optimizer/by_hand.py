"""Rates that the program sets itself, without a scheduler."""

from __future__ import annotations

import ast

from torch.optim import Optimizer

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind, OptimizerEntry
from whence.rules.optimizer.rates import lines_that_set_rates
from whence.rules.telling import spot_at, tell_silent
from whence.source.blocks import LOOPS, dotted, statements_around
from whence.source.edits import diff_of, replace_node
from whence.source.files import program_files
from whence.source.spots import Spot
from whence.source.text import enclosing, last_name, text_of, tree_of

LONG_ENOUGH = 50


def files_of(audit: Audit) -> list[str]:
    """The program's files, with those that optimizers are built and stepped in."""
    stacks = (
        *(each.stack for each in audit.built),
        *(each.stack for each in audit.loop.of(Kind.STEP)),
    )
    return program_files({site.filename for stack in stacks for site in stack})


def rate_set_in_vain(audit: Audit) -> Finding | None:
    """`optimizer.lr = rate`: an attribute that nothing reads."""
    for entry in audit.built:
        optimizer = entry.optimizer
        if optimizer is None or not _is_torchs(optimizer) or "lr" not in vars(optimizer):
            continue
        said, used = vars(optimizer)["lr"], optimizer.param_groups[0].get("lr")
        if type(said) not in (int, float) or type(used) not in (int, float) or said == used:
            continue
        if len(optimizer.param_groups) > 1 or _is_read(audit):
            # It is kept to be printed.
            continue
        lines = [each for each in _attributes_set(audit) if isinstance(each.node(), ast.Assign)]
        spot = lines[0] if len(lines) == 1 else None
        return tell_silent(
            audit,
            "optimizer/schedule",
            spot=spot or spot_at(entry.stack[0] if entry.stack else None),
            symptom=spot_at(entry.stack[0] if entry.stack else None),
            step=audit.step,
            op=entry.kind,
            phase="optimizer",
            severity=Severity.WARNING,
            confidence=Confidence.PROVEN,
            verdict=f"the learning rate stays {used:g}: {entry.kind} does not read the attribute lr that is set here",
            what=f"lr is {said:g}, and every group of weights is stepped with its own rate, {used:g}",
            why="An optimizer has a rate for each of its param_groups. To set an attribute of another name on it changes nothing.",
            fix='Set the rate of the groups: for group in optimizer.param_groups: group["lr"] = rate.',
            patch=_set_in_its_group(spot)
            if spot is not None and len(optimizer.param_groups) == 1
            else None,
        )
    return None


def _is_torchs(optimizer: Optimizer) -> bool:
    return type(optimizer).__module__.startswith("torch.optim.")


def _attributes_set(audit: Audit) -> list[Spot]:
    return [
        Spot.of_node(filename, node)
        for filename in files_of(audit)
        for node in ast.walk(tree_of(filename) or ast.Module([], []))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and node.targets[0].attr == "lr"
    ]


def _is_read(audit: Audit) -> bool:
    trees = (tree_of(filename) for filename in files_of(audit))
    nodes = (node for tree in trees if tree is not None for node in ast.walk(tree))
    return any(
        isinstance(each, ast.Attribute) and each.attr == "lr" and isinstance(each.ctx, ast.Load)
        for each in nodes
    )


def _set_in_its_group(spot: Spot) -> str | None:
    match spot.node():
        case ast.Assign(targets=[ast.Attribute(value=owner) as target]):
            text = f'{text_of(spot.filename, owner)}.param_groups[0]["lr"]'
            return diff_of(replace_node(spot.filename, target, text))
    return None


def rate_gone(audit: Audit) -> Finding | None:
    """The program multiplies the rate in every step with what was meant for an epoch: most steps are made at next to nothing."""
    for entry in audit.built:
        if not audit.final or entry.steps < LONG_ENOUGH or not entry.stack:
            continue
        # A second phase at a rate of its own changes it once.
        if min(entry.gone, entry.changes) <= 0.5 * entry.steps:
            continue
        plan = audit.schedules.of(entry.ref)
        spot = _where_set(audit) if plan is None or not plan.steps else None
        if spot is not None:
            return _tell_gone(audit, entry, spot)
    return None


def _tell_gone(audit: Audit, entry: OptimizerEntry, spot: Spot) -> Finding | None:
    first, last = entry.rates[-1], entry.climb.rate
    return tell_silent(
        audit,
        "optimizer/schedule",
        spot=spot,
        symptom=spot_at(entry.stack[0]),
        step=audit.step,
        op=entry.kind,
        phase="optimizer",
        # A rate of 1 / t is gone as soon, and some have reasons for it.
        severity=Severity.INFO,
        confidence=Confidence.LIKELY,
        verdict=f"the learning rate is gone after {entry.steps - entry.gone} of {entry.steps} steps: the program lowers it in every step",
        what=f"the rate fell from {first:g} to {last:g}",
        why="What is to be done once an epoch is done for every batch: with a rate below a thousandth of the first nothing is learnt any more.",
        fix="Lower it once an epoch, outside of the loop over batches; or by a factor that is made for the number of batches.",
    )


def _where_set(audit: Audit) -> Spot | None:
    """The only line that sets a rate; the only call of its function, where that stands in a loop."""
    lines = lines_that_set_rates(files_of(audit))
    node = lines[0].node() if len(lines) == 1 else None
    function = enclosing(node, ast.FunctionDef) if node is not None else None
    if not isinstance(function, ast.FunctionDef):
        return lines[0] if len(lines) == 1 else None
    calls = [
        Spot.of_node(filename, each)
        for filename in files_of(audit)
        for each in ast.walk(tree_of(filename) or ast.Module([], []))
        if isinstance(each, ast.Call)
        and dotted(each.func) is not None
        and last_name(each.func) == function.name
    ]
    call = calls[0].node() if len(calls) == 1 else None
    is_looped = call is not None and any(
        isinstance(each, LOOPS) for each in statements_around(call)
    )
    return calls[0] if is_looped else lines[0]
