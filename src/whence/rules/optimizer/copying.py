"""Where a network or a state gets its name, and the code for a copy of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from whence.lineage.constructors import caller_argument
from whence.source.blocks import dotted
from whence.source.definitions import (
    Definition,
    definitions_before,
    find_attribute,
    find_attributes,
    find_definition,
    names_set_in,
)
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.statements import import_of
from whence.source.text import enclosing, function_node, statement_of, text_of, tree_of

SAME = frozenset({"to", "eval", "train", "float", "cpu", "cuda", "requires_grad_"})
"""Methods that return the module itself."""


def deep_copied(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.expr):
        return None
    text = f"copy.deepcopy({text_of(spot.filename, node)})"
    return diff_of(*import_of(spot.filename, "copy"), replace_node(spot.filename, node, text))


def definition_of(node: ast.expr, *stack: Site) -> Spot | None:
    """Where a variable or attribute gets its value; for a parameter, the caller's argument."""
    site = stack[0]
    function = function_node(site)
    tree = tree_of(site.filename)
    if isinstance(node, ast.Name) and tree is not None:
        for scope in (function, tree):
            found = _first_of_its_kind(node.id, scope) if scope is not None else None
            if found is not None and found.value is not None:
                return Spot.of_node(site.filename, found.value)
            if found is not None:
                given = caller_argument(stack, node.id)
                return definition_of(given, *stack[1:]) if given is not None else None
    if isinstance(node, ast.Attribute) and function is not None:
        kind = enclosing(function, ast.ClassDef)
        found = find_attribute(node.attr, kind) if isinstance(kind, ast.ClassDef) else None
        if found is not None and found.value is not None:
            return Spot.of_node(site.filename, found.value)
    return None


def _first_of_its_kind(name: str, scope: ast.AST) -> Definition | None:
    """The last definition of a name, skipping those like `model = model.cuda()`."""
    found = find_definition(name, scope, None)
    while found is not None and _calls_itself(found.value, name):
        before = next(iter(definitions_before(name, scope, found.node)), None)
        if before is None:
            break
        found = before
    return found


def _calls_itself(value: ast.expr | None, name: str) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=asked))):
            return asked == name
    return False


@dataclass(frozen=True, slots=True)
class NameGiven:
    """An assignment that gives a network a second name."""

    value: ast.expr
    statement: ast.stmt
    was_another: bool
    """Whether other lines assign the name to something else."""


def name_given(node: ast.expr, site: Site, others: set[str]) -> NameGiven | None:
    """The assignment that makes the expression an alias of one of the network's other names."""
    found = [
        each
        for each in _assignments(node, site)
        if each.value is not None and not _is_none(each.value)
    ]
    for each in found:
        value = each.value
        while (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr in SAME
        ):
            value = value.func.value
        statement = statement_of(value) if value is not None else None
        if value is not None and statement is not None and dotted(value) in others - {dotted(node)}:
            return NameGiven(value, statement, was_another=len(found) > 1)
    return None


def _assignments(node: ast.expr, site: Site) -> list[Definition]:
    function, tree = function_node(site), tree_of(site.filename)
    if isinstance(node, ast.Name):
        scopes = [each for each in (function, tree) if each is not None]
        return next((found for each in scopes if (found := list(names_set_in(each, node.id)))), [])
    kind = enclosing(function, ast.ClassDef) if function is not None else None
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and isinstance(kind, ast.ClassDef)
    ):
        return [definition for _, definition in find_attributes(node.attr, kind)]
    return []


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
