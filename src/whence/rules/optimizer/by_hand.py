"""Learning rates that the program sets itself, without a scheduler."""

from __future__ import annotations

import ast

from torch.optim import Optimizer

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind, OptimizerEntry
from whence.rules.optimizer.rates import lines_that_set_rates
from whence.rules.telling import silent_finding, spot_at
from whence.source.blocks import LOOPS, dotted, statements_around
from whence.source.edits import diff_of, replace_node
from whence.source.files import program_files
from whence.source.spots import Spot
from whence.source.text import enclosing, last_name, text_of, tree_of

LONG_ENOUGH = 50


def files_of(audit: Audit) -> list[str]:
    """The program's files, including those that build and step optimizers."""
    stacks = (
        *(each.stack for each in audit.built),
        *(each.stack for each in audit.loop.of(Kind.STEP)),
    )
    return program_files({site.filename for stack in stacks for site in stack})


def unread_rate(audit: Audit) -> Finding | None:
    """Report `optimizer.lr = rate`: an attribute that nothing reads."""
    for entry in audit.built:
        optimizer = entry.optimizer
        if optimizer is None or not _is_builtin(optimizer) or "lr" not in vars(optimizer):
            continue
        set_to, used = vars(optimizer)["lr"], optimizer.param_groups[0].get("lr")
        if type(set_to) not in (int, float) or type(used) not in (int, float) or set_to == used:
            continue
        if len(optimizer.param_groups) > 1 or _is_read(audit):
            # The attribute is kept for printing.
            continue
        lines = [each for each in _attributes_set(audit) if isinstance(each.node(), ast.Assign)]
        spot = lines[0] if len(lines) == 1 else None
        return silent_finding(
            audit,
            "optimizer/schedule",
            spot=spot or spot_at(entry.stack[0] if entry.stack else None),
            symptom=spot_at(entry.stack[0] if entry.stack else None),
            step=audit.step,
            op=entry.kind,
            phase="optimizer",
            severity=Severity.WARNING,
            confidence=Confidence.PROVEN,
            verdict=f"setting `lr` on {entry.kind} has no effect: the learning rate stays {used:g}",
            what=f"lr is {set_to:g}, but every parameter group uses its own learning rate, "
            f"{used:g}",
            why="Each of the optimizer's param_groups has its own learning rate. The attribute "
            "`lr` of the optimizer itself is never read.",
            fix="Set the learning rate of the groups: for group in optimizer.param_groups: "
            'group["lr"] = rate.',
            patch=_set_in_its_group(spot)
            if spot is not None and len(optimizer.param_groups) == 1
            else None,
        )
    return None


def _is_builtin(optimizer: Optimizer) -> bool:
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


def rate_decayed_per_step(audit: Audit) -> Finding | None:
    """Report a per-epoch decay that is applied in every step: most steps change almost nothing."""
    for entry in audit.built:
        if not audit.final or entry.steps < LONG_ENOUGH or not entry.stack:
            continue
        # A second phase with its own learning rate changes it only once.
        if min(entry.gone, entry.changes) <= 0.5 * entry.steps:
            continue
        plan = audit.schedules.of(entry.ref)
        spot = _where_set(audit) if plan is None or not plan.steps else None
        if spot is not None:
            return _report_decayed(audit, entry, spot)
    return None


def _report_decayed(audit: Audit, entry: OptimizerEntry, spot: Spot) -> Finding | None:
    first, last = entry.rates[-1], entry.climb.rate
    return silent_finding(
        audit,
        "optimizer/schedule",
        spot=spot,
        symptom=spot_at(entry.stack[0]),
        step=audit.step,
        op=entry.kind,
        phase="optimizer",
        # 1 / t decays as fast, and can be intended.
        severity=Severity.INFO,
        confidence=Confidence.LIKELY,
        verdict=f"the learning rate is negligible after {entry.steps - entry.gone} of "
        f"{entry.steps} steps: it is lowered in every step",
        what=f"the learning rate fell from {first:g} to {last:g}",
        why="The decay is applied for every batch. Below a thousandth of the first learning rate "
        "almost nothing is learned.",
        fix="Lower the learning rate once per epoch, outside of the loop over batches, or use a "
        "factor made for the number of batches.",
    )


def _where_set(audit: Audit) -> Spot | None:
    """The only line that sets a learning rate, or the only call of its function in a loop."""
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
