"""Edits of lines that build and step optimizers, shared by several rules."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import torch

from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind, OptimizerEntry
from whence.source.blocks import (
    BLOCKS,
    LOOPS,
    Stack,
    block_of,
    bound_by,
    dotted,
    holds_at,
    is_used_between,
    names_in,
    statements_around,
    target_of,
)
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.sites import Site
from whence.source.statements import line_after, move_after, move_before
from whence.source.text import last_name, statement_of
from whence.tape.scopes import weights_within

SEQUENCES = frozenset({"parameters", "chain", "list"})


def built_once(site: Site) -> str | None:
    """Move an optimizer that is built in a loop out of it, as far as its inputs stay the same."""
    made = target_of(site)
    if made is None:
        return None
    name, statement = made
    used = names_in(statement) - {name}
    outside: ast.stmt | None = None
    for each in reversed(statements_around(statement)[:-1]):
        if not isinstance(each, BLOCKS) or used & bound_by(each):
            break
        outside = each if isinstance(each, LOOPS) else outside
    return diff_of(*move_before(site.filename, statement, outside)) if outside is not None else None


def built_after(entry: OptimizerEntry, replacing: Stack) -> str | None:
    """Build the optimizer after the replacement, if nothing uses it in between."""
    site = entry.stack[0] if entry.stack else None
    made = target_of(site) if site is not None else None
    here = next(
        (each.statement() for each in replacing if site is not None and each.f_code is site.f_code),
        None,
    )
    if site is None or made is None or here is None:
        return None
    name, statement = made
    other = next((each for each in statements_around(here) if each in block_of(statement)), None)
    if other is None or other.lineno <= statement.lineno or is_used_between(name, statement, other):
        return None
    return diff_of(*move_after(site.filename, statement, other))


def stepped_after(audit: Audit, entry: OptimizerEntry, backward: Site) -> str | None:
    """Insert `optimizer.step()` after backward, by the name used where it is built or cleared."""
    statement = backward.statement()
    if not isinstance(statement, ast.Expr):
        return None
    for name, known in names_of(audit, entry, backward.filename):
        if holds_at(name, known, statement):
            return diff_of(line_after(backward.filename, statement, f"{name}.step()"))
    return None


def names_of(audit: Audit, entry: OptimizerEntry, filename: str) -> Iterator[tuple[str, ast.stmt]]:
    """The names of an optimizer in a file, and the statements where they are valid."""
    made = (
        target_of(entry.stack[0]) if entry.stack and entry.stack[0].filename == filename else None
    )
    if made is not None:
        yield made
    for event in audit.loop.of(Kind.CLEAR):
        is_own = (
            issubclass(event.detail["by"], torch.optim.Optimizer) and event.written == entry.weights
        )
        node = (
            event.site.node()
            if event.site is not None and event.site.filename == filename and is_own
            else None
        )
        name = (
            dotted(node.func.value)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            else None
        )
        statement = statement_of(node) if node is not None else None
        if name is not None and statement is not None:
            yield name, statement


def moved_after(site: Site | None, other: Site | None) -> str | None:
    """Move a statement after another one of the same block."""
    one, then = (each.statement() if each is not None else None for each in (site, other))
    if site is None or not isinstance(one, ast.Expr) or then is None or then not in block_of(one):
        return None
    return diff_of(*move_after(site.filename, one, then))


def missing_weights_added(
    audit: Audit, entry: OptimizerEntry, lost: Iterable[torch.Tensor | None]
) -> str | None:
    """Pass all missing weights to the optimizer: the whole model, or the other model too."""
    wanted = {id(each) for each in lost}
    site = entry.stack[0] if entry.stack else None
    node = site.node() if site is not None else None
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if site is None or given is None or entry.groups != 1:
        return None
    return _the_whole(audit, entry, given, wanted) or _the_other(audit, site, given, wanted)


def _the_whole(audit: Audit, entry: OptimizerEntry, given: ast.expr, lost: set[int]) -> str | None:
    """`model.head.parameters()` becomes `model.parameters()`."""
    match given:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Attribute(value=model, attr=part) as owner, attr="parameters"
            )
        ):
            pass
        case _:
            return None
    names = {
        each.name: each for each in audit.weights.entries() if each.name and each.weight is not None
    }
    given_names = [name for name, each in names.items() if id(each.weight) in entry.weights]
    left = [name for name, each in names.items() if id(each.weight) in lost]
    whole = given_names[0].partition(f".{part}.")[0] if given_names else ""
    beside = [
        name
        for name, each in names.items()
        if name.startswith(f"{whole}.") and id(each.weight) not in entry.weights
    ]
    is_part = all(each.startswith(f"{whole}.{part}.") for each in given_names) and len(left) == len(
        lost
    )
    if not whole or not is_part or set(beside) != set(left) or dotted(model) is None:
        return None
    return diff_of(replace_node(entry.stack[0].filename, owner, ast.unparse(model)))


def _the_other(audit: Audit, site: Site, given: ast.expr, lost: set[int]) -> str | None:
    """`encoder.parameters()` becomes `[*encoder.parameters(), *decoder.parameters()]`."""
    statement = site.statement()
    is_sequence = isinstance(given, ast.BinOp) or (
        isinstance(given, ast.Call) and last_name(given.func) in SEQUENCES
    )
    if statement is None or not is_sequence:
        return None
    names: list[str] = []
    for module in audit.modules.roots():
        own = {id(each) for each in weights_within(module)}
        stack = audit.modules.built_at(module)
        made = target_of(stack[0]) if own and own <= lost and stack else None
        if made is not None and stack[0].filename == site.filename and holds_at(*made, statement):
            names.append(made[0])
            lost = lost - own
    if lost or not names:
        return None
    more = "".join(f", *{name}.parameters()" for name in names)
    return diff_of(
        replace_node(site.filename, given, f"[*{in_parentheses(site.filename, given)}{more}]")
    )
