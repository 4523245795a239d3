"""Where a program sets learning rates during training."""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

from whence.source.definitions import own_nodes
from whence.source.edits import diff_of, replace_node
from whence.source.sites import is_library
from whence.source.spots import Spot
from whence.source.text import text_of, tree_of
from whence.tape.trip import Trip


def set_at(trip: Trip) -> Spot | None:
    """The schedule's formula, the line that builds it, or the only line `group["lr"] = ...`."""
    plan = trip.schedule
    if plan is not None:
        formula = spot_of_formula(plan.formula) if plan.formula is not None else None
        return formula or (Spot.of_site(plan.built[0]) if plan.built else None)
    found = lines_that_set_rates(sorted({each.f_code.co_filename for each in trip.frames}))
    return found[0] if len(found) == 1 else None


def lines_that_set_rates(files: list[str]) -> list[Spot]:
    return [
        Spot.of_node(file, node)
        for file in files
        for node in ast.walk(tree_of(file) or ast.Module([], []))
        if isinstance(node, ast.Assign | ast.AugAssign)
        and any(map(_is_rate, getattr(node, "targets", [getattr(node, "target", None)])))
    ]


def spot_of_formula(code: CodeType) -> Spot | None:
    """The only return of a function, the body of a lambda, else the function itself."""
    tree = tree_of(code.co_filename)
    for node in ast.walk(tree) if tree is not None and not is_library(code.co_filename) else ():
        if (
            isinstance(node, ast.Lambda)
            and code.co_name == "<lambda>"
            and node.lineno == code.co_firstlineno
        ):
            return Spot.of_node(code.co_filename, node)
        if isinstance(node, ast.FunctionDef) and (node.name, node.lineno) == (
            code.co_name,
            code.co_firstlineno,
        ):
            returns = [
                each
                for each in own_nodes(node)
                if isinstance(each, ast.Return) and each.value is not None
            ]
            return Spot.of_node(code.co_filename, returns[0] if len(returns) == 1 else node)
    return None


def capped(formula: Spot) -> str | None:
    """A diff that limits a learning rate factor to 1."""
    match formula.node():
        case ast.Return(value=ast.expr() as given) | ast.Lambda(body=given):
            return diff_of(
                replace_node(
                    formula.filename, given, f"min(1.0, {text_of(formula.filename, given)})"
                )
            )
    return None


def _is_rate(target: Any) -> bool:
    match target:
        case ast.Subscript(slice=ast.Constant(value="lr")):
            return True
    return False
