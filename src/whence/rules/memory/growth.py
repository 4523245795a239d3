"""Memory that grows with every step, and the variable that holds it."""

from __future__ import annotations

import ast

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.memory import Holding
from whence.rules.memory.filling import filled_at
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding
from whence.source.definitions import Kind, find_definition
from whence.source.edits import diff_of, in_parentheses, insert_after, replace_node
from whence.source.spots import Spot
from whence.source.text import enclosing, statement_of

LOUD_BYTES = 4 * 2**20
LOUD_RATE = 8 * 2**10
NOTED_RATE = 2**10
HUGE = 512 * 2**20


def size_text(size: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


@audit_rule("memory/graph-kept", Rank.CALL)
def graph_kept(audit: Audit) -> Finding | None:
    """A stored tensor keeps whole graphs alive.

    What happened
        Tensors with graphs are put into a list, a dict or an attribute in every step, or summed.
        Each keeps the graph of its step alive: all nodes, and the activations of passes that no
        backward has freed.
    Why it matters
        Memory grows with every step, until the program is killed.
    How it is detected
        The program's variables and attributes are checked after 3, 6, 12, 24 ... steps: a container
        whose tensors have graphs and which grows with the steps, or a sum whose graph grows. Or a
        container with many megabytes of graphs whose weights were updated since, even if it is
        emptied now and then.
    How to fix it
        Use .item() for numbers, .detach() for tensors.
    When it stays silent
        For containers that are emptied or bounded, unless they are large and no backward can use
        their contents; for graphs that a backward may still use in this step. It is a note if the
        memory is small.
    Cost
        A pass over the program's variables, a dozen times in a run.
    """
    for holding in audit.memory.holdings():
        if holding.outlived and not holding.grows:
            return _outlived(audit, holding)
        if (
            holding.grows
            and holding.graph
            and (holding.kind != "tensor" or _is_sum(holding, audit))
        ):
            return _report(
                audit,
                holding,
                "memory/graph-kept",
                verdict=f"`{holding.name}` keeps the graph of every step alive",
                why="A tensor with a graph keeps everything that backward would need: nodes, and "
                "activations that no backward has freed.",
                fix=f"Store values without a graph in `{holding.name}`: .item() for a scalar, "
                ".detach() for a tensor.",
            )
    return None


def _outlived(audit: Audit, holding: Holding) -> Finding | None:
    """Report a container that is emptied or bounded, but holds large unusable graphs."""
    return _report(
        audit,
        holding,
        "memory/graph-kept",
        verdict=f"`{holding.name}` keeps {size_text(holding.bytes)} of graphs from "
        f"{holding.sizes[-1][1]} steps that no backward can use",
        what=f"{size_text(holding.bytes)} in step {holding.sizes[-1][0]}",
        why="A tensor with a graph keeps the activations that backward would need. The weights "
        "of these graphs have been updated since, so a backward through them would fail.",
        fix=f"Store values without a graph in `{holding.name}`: .item() for a scalar, .detach() "
        "for a tensor. Compute values that are never differentiated under torch.no_grad().",
    )


@audit_rule("memory/growing-graph", Rank.CALL)
def growing_graph(audit: Audit) -> Finding | None:
    """One graph grows with every step.

    What happened
        A tensor is carried from step to step without detach: each step adds its graph to those of
        all steps before.
    Why it matters
        Memory and the time of a backward grow with every step.
    How it is detected
        The graph of a variable or attribute has more nodes at each check. Where a program computes
        all its gradients with create_graph and no pass ever ends, some of these gradients are
        checked, and it is reported when the program ends.
    How to fix it
        Detach at the start of each step: state = state.detach().
    When it stays silent
        For graphs that do not grow, and for sums of losses (memory/graph-kept).
    Cost
        A pass over the program's variables, a dozen times in a run.
    """
    growing = [each for each in audit.memory.holdings() if each.grows and each.kind == "tensor"]
    # Tensors computed from it in a step have its graph and more.
    for holding in sorted(growing, key=lambda each: each.sizes[-1][1]):
        if not _is_sum(holding, audit):
            return _report(
                audit,
                holding,
                "memory/growing-graph",
                verdict=f"the graph of `{holding.name}` grows with every step: it is carried over "
                "without detach",
                why="Each step's graph is connected to that of the previous step, so none of "
                "them can be freed."
                + (
                    ""
                    if audit.step
                    else " Every gradient was computed with create_graph, and no backward ends a "
                    "pass."
                ),
                fix=f"Detach it at the start of each step: {holding.name} = "
                f"{holding.name}.detach()."
                + (
                    "" if audit.step else " Drop create_graph where no second derivative is needed."
                ),
            )
    return None


@audit_rule("memory/growth", Rank.CALL)
def growth(audit: Audit) -> Finding | None:
    """Memory grows steadily without a graph (lists of tensors, metrics never reset).

    What happened
        A container receives more tensors with every step, and nothing removes them: collected
        outputs, a metric that is never reset.
    Why it matters
        Memory grows until the program is killed. gc.collect() and empty_cache() free nothing that a
        variable still holds.
    How it is detected
        The program's variables and attributes are checked after 3, 6, 12, 24 ... steps, and at the
        end: a container of tensors that grows with the steps.
    How to fix it
        Keep only what is needed (numbers, the last few), or write it to disk; reset metrics at the
        start of an epoch.
    When it stays silent
        For small tensors, bounded containers, datasets and their caches.
    Cost
        A pass over the program's variables, a dozen times in a run.
    """
    for holding in audit.memory.holdings():
        if holding.kind == "tensor" or holding.graph:
            continue
        at_once = audit.final and not audit.step and holding.bytes >= HUGE
        is_little = holding.bytes < LOUD_BYTES and _rate(holding) < NOTED_RATE
        if (holding.grows and not is_little) or at_once:
            found = _report(
                audit,
                holding,
                "memory/growth",
                verdict=f"`{holding.name}` holds {holding.sizes[-1][1]} tensors, "
                f"{size_text(holding.bytes)}" + ("" if at_once else ", and grows with every step"),
                why="Tensors that a variable holds cannot be freed, neither by gc.collect() nor "
                "by empty_cache().",
                fix=f"Keep only what is needed, or empty it: {holding.name}.clear(), del "
                f"{holding.name}.",
                quiet=not at_once and _rate(holding) < LOUD_RATE,
            )
            if found is not None:
                return found
    return None


def _is_sum(holding: Holding, audit: Audit) -> bool:
    """Whether a tensor is added to, rather than recomputed from itself."""
    spot = filled_at(holding, audit)
    node = spot.node() if spot is not None else None
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.BinOp)
        and isinstance(node.value.op, ast.Add)
    ):
        return holding.name in (ast.unparse(node.value.left), ast.unparse(node.value.right))
    return isinstance(node, ast.AugAssign)


def _rate(holding: Holding) -> float:
    """Bytes per step."""
    first, last = holding.sizes[0], holding.sizes[-1]
    return (last[2] - first[2]) / max(last[0] - first[0], 1)


def _report(
    audit: Audit,
    holding: Holding,
    rule: str,
    *,
    verdict: str,
    why: str,
    fix: str,
    what: str = "",
    quiet: bool = False,
) -> Finding | None:
    spot = filled_at(holding, audit)
    if spot is None or rule in audit.told:
        return None
    loud = holding.bytes >= LOUD_BYTES or _rate(holding) >= LOUD_RATE
    steps = f" in step {holding.sizes[-1][0]}" if audit.step else ""
    return silent_finding(
        audit,
        rule,
        spot=spot,
        step=audit.step,
        phase="program",
        severity=Severity.WARNING if loud and not quiet else Severity.INFO,
        confidence=Confidence.PROVEN,
        verdict=verdict,
        what=what
        or f"{size_text(holding.bytes)}{steps}"
        + (f", {size_text(_rate(holding))} more per step" if audit.step else ""),
        why=why,
        fix=fix,
        patch=_carried_without_graph(spot, holding)
        if holding.kind == "tensor"
        else _cut_off(spot)
        if holding.graph and holding.of_tensors and _are_small(holding)
        else None,
    )


def _carried_without_graph(spot: Spot, holding: Holding) -> str | None:
    """`s = 0.9 * s + x` becomes `s = 0.9 * s.detach() + x`, unless `s` starts as a plain number."""
    node, name = spot.node(), holding.name
    if not isinstance(node, ast.Assign) or [ast.unparse(each) for each in node.targets] != [name]:
        return None
    scope = (
        enclosing(node, ast.ClassDef, ast.Module)
        if "." in name
        else enclosing(node, ast.FunctionDef, ast.Module)
    )
    made = [
        each for each in ast.walk(scope or node) if isinstance(each, ast.Assign | ast.AnnAssign)
    ]
    begun = [each.value for each in made if name in [ast.unparse(one) for one in _targets_of(each)]]
    carried = [
        each
        for each in ast.walk(node.value)
        if isinstance(each, ast.Name | ast.Attribute) and ast.unparse(each) == name
    ]
    if len(carried) != 1 or any(isinstance(each, ast.Constant) for each in begun):
        return None
    return diff_of(insert_after(spot.filename, carried[0], ".detach()"))


def _targets_of(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _are_small(holding: Holding) -> bool:
    """Whether the tensors at the ends of the container are small without their graphs."""
    kept = [each for ref in holding.ends if (each := ref()) is not None]
    return bool(kept) and all(each.nbytes < LOUD_RATE for each in kept)


def _cut_off(spot: Spot) -> str | None:
    """`log.append(loss)` becomes `log.append(loss.detach())`, if `loss` is computed there."""
    node = spot.node()
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or len(node.args) != 1
    ):
        return None
    kept, scope = node.args[0], enclosing(node, ast.FunctionDef, ast.Module)
    known = (
        find_definition(kept.id, scope, statement_of(kept))
        if isinstance(kept, ast.Name) and scope
        else None
    )
    is_made = isinstance(kept, ast.Call | ast.BinOp) or (
        known is not None and known.kind is Kind.ASSIGNED
    )
    if node.func.attr != "append" or not is_made:
        return None
    return diff_of(
        replace_node(spot.filename, kept, f"{in_parentheses(spot.filename, kept)}.detach()")
    )
