"""Whether a checkpoint's count, an epoch or a step, decides where training continues."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from whence.source.blocks import (
    LOOPS,
    PASSING,
    SCOPES,
    Stack,
    self_of,
    statements_around,
    target_of,
)
from whence.source.definitions import (
    attribute_definitions,
    class_of_method,
    find_definition,
    own_nodes,
)
from whence.source.text import enclosing, function_node, last_name, parent_of

BOUNDING = PASSING | {"range", "trange", "count", "islice", "int", "max", "min"}
"""Calls whose arguments decide the number of iterations of a loop."""


def continues_from(keys: Sequence[str], read: Stack, steps: Sequence[Stack]) -> bool:
    """Whether one of these keys certainly bounds a loop that makes some of these steps."""
    number, name = _kept_at(read)
    if not name:
        return False
    made = [
        statement
        for site in {site for each in steps for site in each}
        if (statement := site.statement())
    ]
    loops = {
        each
        for statement in made
        for each in statements_around(statement)
        if isinstance(each, LOOPS)
    }
    asked = [each for key in keys for each in _reads_of(name, key, function_node(read[number]))]
    return any(_bounds(each, loops, read[number:], set()) for each in asked)


def _kept_at(way: Stack) -> tuple[int, str]:
    """The function on the stack that stores the result of a call, and the name it uses."""
    for number, site in enumerate(way):
        node = site.node()
        if node is None or not isinstance(parent_of(node), ast.Return):
            known = target_of(site)
            return number, known[0] if known is not None else ""
    return 0, ""


def _reads_of(name: str, key: str, scope: ast.AST | None) -> Iterator[ast.expr]:
    """Find `checkpoint["epoch"]` and `checkpoint.get("epoch", 0)`."""
    for node in own_nodes(scope) if scope is not None else ():
        match node:
            case ast.Subscript(value=owner, slice=ast.Constant(value=part), ctx=ast.Load()):
                pass
            case ast.Call(
                func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=part), *_]
            ):
                pass
            case _:
                continue
        if part == key and ast.unparse(owner) == name:
            yield node


def _bounds(node: ast.AST, loops: Collection[ast.AST], way: Stack, seen: set[ast.AST]) -> bool:
    """Whether a number reaches the head of a loop: directly, by name, or as a function's result."""
    whole = _expression_of(node)
    above = parent_of(whole)
    if above is None or above in seen:
        return False
    seen.add(above)
    match above:
        case ast.For(iter=head) | ast.AsyncFor(iter=head) | ast.While(test=head):
            return head is whole and above in loops
        case ast.Return():
            call = way[1].node() if len(way) > 1 else None
            return call is not None and _bounds(call, loops, way[1:], seen)
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return any(_bounds(each, loops, way, seen) for each in _uses(target, above))
    return False


def _expression_of(node: ast.AST) -> ast.AST:
    """The whole expression computed from a number: `range(epoch + 1, 10)` for `epoch`."""
    above = parent_of(node)
    while isinstance(
        above, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Call
    ):
        if isinstance(above, ast.IfExp) and above.test is node:
            break
        if isinstance(above, ast.Call) and (
            above.func is node or last_name(above.func) not in BOUNDING
        ):
            break
        node, above = above, parent_of(above)
    return node


def _uses(target: ast.Name | ast.Attribute, made: ast.Assign) -> Iterator[ast.AST]:
    """Where a name, `start` or `self.start`, has the value that a statement assigns to it."""
    name, home = ast.unparse(target), enclosing(made, *SCOPES)
    if home is None:
        return
    owner = class_of_method(home) if name.split(".")[0] == self_of(home) != name else None
    for scope in owner.body if owner is not None else [home]:
        wanted = made if scope is home else None
        for node in own_nodes(scope):
            is_use = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
            if is_use and ast.unparse(node) == name and _last_set(name, scope, node) is wanted:
                yield node


def _last_set(name: str, scope: ast.AST, use: ast.AST) -> ast.AST | None:
    """The last statement of a function above a line that assigns a name."""
    if "." not in name:
        known = find_definition(name, scope, use)
        return known.node if known is not None else None
    above = [
        each.node for each in attribute_definitions(name, scope) if _line(each.node) < _line(use)
    ]
    return above[-1] if above else None


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
