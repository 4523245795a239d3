"""Loss terms that were converted to Python numbers: `loss_a + loss_b.item()`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from whence.lineage.ancestry import behind_losses
from whence.source.definitions import find_definition
from whence.source.sites import Site
from whence.source.text import function_node, statement_of
from whence.tape.tape import Call

TO_NUMBERS = frozenset({"item", "__float__", "tolist"})


def number_in_loss(tape: Iterable[Call], first: Call, weight: object) -> Call | None:
    """The conversion to a number of a result that depends on a weight, if a loss includes it."""
    calls = [
        call
        for call in tape
        if call.number >= first.number and call.step == first.step and not call.inner
    ]
    lost = [each for each in _made_numbers(calls, first, weight) if each.site is not None]
    part = behind_losses(calls) if lost else set()
    for call in calls:
        node = _expression(call) if call.number in part and _has_number(call) else None
        written = (
            set(_written_in(node, call.site))
            if node is not None and call.site is not None
            else set()
        )
        for each in lost:
            if each.number < call.number and each.site is not None and each.site.node() in written:
                return each
    return None


def _expression(call: Call) -> ast.AST | None:
    """The source expression of a call; for `scores[i] = ...` the whole statement."""
    node = call.site.node() if call.site is not None else None
    return statement_of(node) if node is not None and call.name == "__setitem__" else node


def _made_numbers(calls: list[Call], first: Call, weight: object) -> Iterator[Call]:
    reached = {id(value) for value in first.operands if value.tensor is weight}
    for call in calls:
        if call.phase in ("optimizer", "data", "backward") or not any(
            id(value) in reached for value in call.operands
        ):
            continue
        if call.name in TO_NUMBERS:
            yield call
        reached |= {id(value) for value in call.outputs if value.requires_grad}


def _has_number(call: Call) -> bool:
    arguments = (*call.args, *call.kwargs.values())
    learns = any(each.requires_grad for each in call.outputs)
    return any(isinstance(each, float) for each in arguments) and (
        learns or call.name == "__setitem__"
    )


def _written_in(node: ast.AST, site: Site) -> Iterator[ast.AST]:
    """The nodes of an expression, and of the expressions assigned to its variables."""
    yield from ast.walk(node)
    scope = function_node(site)
    for each in ast.walk(node) if scope is not None else ():
        known = (
            find_definition(each.id, scope, statement_of(node))
            if isinstance(each, ast.Name) and scope
            else None
        )
        if known is not None and known.value is not None:
            yield from ast.walk(known.value)
