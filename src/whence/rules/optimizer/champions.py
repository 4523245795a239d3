"""The best model kept under another name: `if score > best: champion = model`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FrameType

from torch import nn

from whence.finding import Confidence, Finding
from whence.ledgers.audit import Audit
from whence.lineage.looking import Unknown, look
from whence.rules.optimizer.copying import deep_copied
from whence.rules.telling import silent_finding, spot_at
from whence.source.blocks import LOOPS, binds, dotted, statements_around
from whence.source.definitions import own_nodes
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, last_name, text_of
from whence.tape.scopes import weights_within

ORDERS = (ast.Lt, ast.Gt, ast.LtE, ast.GtE)


def best_is_the_model(audit: Audit) -> Finding | None:
    for frame in audit.frames:
        for target, value in _kept(frame):
            model, champion = _module(_original(value), frame), _module(target, frame)
            if model is None or champion is None or not _shares(champion, model):
                continue
            if not all(audit.is_owned(each) for each in weights_within(model)):
                continue
            filename = frame.f_code.co_filename
            kept, live = text_of(filename, target), text_of(filename, _original(value))
            return silent_finding(
                audit,
                "optimizer/aliased-weights",
                spot=Spot.of_node(filename, value),
                symptom=spot_at(audit.stack[0] if audit.stack else None),
                step=audit.step,
                confidence=Confidence.LIKELY,
                verdict=f"`{kept}` is another name for `{live}`, so it always holds the latest "
                "weights, not the best",
                what="this step changes both",
                why="Assigning a module gives it a second name, and copy.copy creates a module "
                "that holds the same layers.",
                fix=f"Keep a copy: copy.deepcopy({live}).",
                patch=_copied(filename, value),
            )
    return None


def is_if_better(statement: ast.AST) -> bool:
    """Whether a line runs only if one value is above or below another."""
    tests = [each.test for each in statements_around(statement) if isinstance(each, ast.If)]
    return any(
        isinstance(op, ORDERS)
        for test in tests
        for each in ast.walk(test)
        if isinstance(each, ast.Compare)
        for op in each.ops
    )


def _keeps_the_best(statement: ast.AST) -> bool:
    """Whether the same branch updates the best score: `best, champion = score, model`."""
    branches = [each for each in statements_around(statement) if isinstance(each, ast.If)]
    return any(_compared(each) & _set_in(each) for each in branches)


def _compared(branch: ast.If) -> set[str]:
    found = (each for each in ast.walk(branch.test) if isinstance(each, ast.Compare))
    return {ast.unparse(side) for each in found for side in (each.left, *each.comparators)}


def _set_in(branch: ast.If) -> set[str]:
    found = (
        each for node in branch.body for each in ast.walk(node) if isinstance(each, ast.Assign)
    )
    targets = (target for each in found for target in each.targets)
    return {
        ast.unparse(name)
        for each in targets
        for name in (each.elts if isinstance(each, ast.Tuple) else [each])
    }


def _kept(frame: FrameType) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Names assigned where a score is better, to an object that the loop does not rebuild."""
    scope = function_node(Site.of(frame))
    for node in own_nodes(scope) if scope is not None else ():
        if not isinstance(node, ast.Assign) or not is_if_better(node) or not _keeps_the_best(node):
            continue
        loop = next(
            (each for each in reversed(statements_around(node)) if isinstance(each, LOOPS)), None
        )
        for target, value in _pairs(node):
            name = dotted(_original(value))
            if (
                name is not None
                and loop is not None
                and not binds(loop, name)
                and _is_read(target, node, scope)
            ):
                yield target, value


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    target = node.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        yield from zip(target.elts, node.value.elts, strict=False)
    else:
        yield target, node.value


def _original(value: ast.expr) -> ast.expr:
    match value:
        case ast.Call(func=called, args=[given]) if last_name(called) == "copy":
            return given
    return value


def _is_read(target: ast.expr, node: ast.Assign, scope: ast.AST | None) -> bool:
    """Whether the name is read later; other code may read an attribute."""
    if not isinstance(target, ast.Name):
        return isinstance(target, ast.Attribute)
    branch = next(
        (each for each in reversed(statements_around(node)) if isinstance(each, ast.If)), node
    )
    reads = [
        each
        for each in ast.walk(scope or node)
        if isinstance(each, ast.Name) and each.id == target.id
    ]
    # A name read only in this branch is a mere alias: `torch.save(to_save.state_dict(), path)`.
    return any(
        isinstance(each.ctx, ast.Load)
        and not branch.lineno <= each.lineno <= (branch.end_lineno or 0)
        for each in reads
    )


def _module(node: ast.expr, frame: FrameType) -> nn.Module | None:
    try:
        found = look(node, frame)
    except Unknown:
        return None
    return found if isinstance(found, nn.Module) else None


def _shares(one: nn.Module, other: nn.Module) -> bool:
    """Whether they are the same module, or one holds the other's layer dictionaries."""
    own = [each for each in (vars(other).get("_modules"), vars(other).get("_parameters")) if each]
    return one is other or any(mine is each for mine in vars(one).values() for each in own)


def _copied(filename: str, value: ast.expr) -> str | None:
    match value:
        case ast.Call(func=ast.Attribute(value=module, attr="copy")):
            return diff_of(
                replace_node(filename, value.func, f"{text_of(filename, module)}.deepcopy")
            )
        case ast.Name() | ast.Attribute():
            return deep_copied(Spot.of_node(filename, value))
    return None
