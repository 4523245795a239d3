"""The edit of optimizer/frozen-moves: clear the gradient of weights that a line freezes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from whence.source.blocks import dotted, names_in
from whence.source.edits import diff_of
from whence.source.sites import Site
from whence.source.statements import line_after
from whence.source.text import enclosing, last_name

OVER_WEIGHTS = frozenset({"parameters", "named_parameters"})


def gradient_cleared(site: Site, weights: Sequence[str]) -> str | None:
    """Add `weight.grad = None`, or `module.zero_grad()`, after the line that freezes it.

    An optimizer skips weights without a gradient. The weights' names decide between the two.
    """
    statement = site.statement()
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=owner, attr="requires_grad")]):
            # On a module this would freeze nothing.
            is_weight: bool | None = True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="requires_grad_"))):
            is_weight = _is_weight(owner, weights)
        case _:
            return None
    name = dotted(owner)
    if name is None or is_weight is None:
        return None
    return diff_of(
        line_after(
            site.filename, statement, f"{name}.grad = None" if is_weight else f"{name}.zero_grad()"
        )
    )


def _is_weight(owner: ast.expr, weights: Sequence[str]) -> bool | None:
    """Whether an expression is a weight; False if it is a module with these; None if unknown."""
    loop = enclosing(owner, ast.For, ast.FunctionDef, ast.Lambda)
    if (
        isinstance(loop, ast.For)
        and isinstance(owner, ast.Name)
        and owner.id in names_in(loop.target)
    ):
        is_over_weights = (
            isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) in OVER_WEIGHTS
        )
        return True if is_over_weights else None
    last = last_name(owner)
    paths = [each.split(".") for each in weights]
    if all(path[-1] == last for path in paths):
        return True
    return False if all(last in path[:-1] for path in paths) else None
