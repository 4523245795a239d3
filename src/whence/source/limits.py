"""Sequences that are cut to a limit and then extended: `[BOS] + words[:limit] + [EOS]`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whence.source.definitions import own_nodes
from whence.source.text import enclosing, parent_of, statement_of


def overrun_limit(node: ast.AST, limit: int, by: int) -> ast.expr | None:
    """Return the limit of a cut after which exactly `by` elements are added, as written.

    Searches the function around a node. A cut that leaves room, `words[:limit - 2]`, does not
    count.
    """
    scope = enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
    for each in own_nodes(scope) if scope is not None else ():
        upper = _limit(each)
        is_it = (
            isinstance(upper, ast.Name | ast.Attribute) or getattr(upper, "value", None) == limit
        )
        if scope is not None and upper is not None and is_it and _added(each, scope) == by:
            return upper
    return None


def _limit(node: ast.AST) -> ast.expr | None:
    match node:
        case ast.Subscript(slice=ast.Slice(lower=None, upper=ast.expr() as upper, step=None)):
            return upper
    return None


def _added(cut: ast.AST, scope: ast.AST) -> int:
    """Return how many elements are added to a cut, in its own statement or in later ones."""
    count = _around(cut)
    match statement_of(cut):
        case ast.Assign(targets=[ast.Name(id=name)]) as statement:
            count += sum(_added_later(name, statement, scope))
    return count


def _around(child: ast.AST) -> int:
    count, parent = 0, parent_of(child)
    while parent is not None and not isinstance(parent, ast.stmt):
        count += _beside(child, parent)
        child, parent = parent, parent_of(parent)
    return count


def _beside(child: ast.AST, parent: ast.AST) -> int:
    """Return the number of elements beside a part in a list concatenation or a spread list."""
    match parent:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _written(right if child is left else left)
        case ast.List() | ast.Tuple() if isinstance(child, ast.Starred):
            return _written(parent)
    return 0


def _written(node: ast.AST) -> int:
    elements = node.elts if isinstance(node, ast.List | ast.Tuple) else []
    return sum(not isinstance(each, ast.Starred) for each in elements)


def _added_later(name: str, after: ast.stmt, scope: ast.AST) -> Iterator[int]:
    """Return what later statements that always run add to a variable."""
    block = parent_of(after)
    for use in own_nodes(scope):
        if not isinstance(use, ast.Name) or use.id != name or not isinstance(use.ctx, ast.Load):
            continue
        statement = statement_of(use)
        if (
            statement is None
            or statement.lineno <= after.lineno
            or parent_of(statement) is not block
        ):
            continue
        match parent_of(use):
            case ast.Attribute(attr="append" | "insert"):
                yield 1
            case _:
                yield _around(use)
