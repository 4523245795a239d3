"""Which block of a function is meant: the loops around one line that are not around another, and the names that hold there."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from whence.source.definitions import FunctionNode, attribute_definitions, bindings_in, find_definition
from whence.source.sites import DEEPEST_STACK, Site
from whence.source.text import enclosing, last_name, parent_of, tree_of

LOOPS = (ast.For, ast.AsyncFor, ast.While)
BLOCKS = (ast.With, ast.AsyncWith, *LOOPS)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)

Stack = tuple[Site, ...]


def statements_around(node: ast.AST) -> list[ast.stmt]:
    """The statements that a node stands in, itself included, up to its function: the outermost first."""
    found: list[ast.stmt] = []
    walker: ast.AST | None = node
    while walker is not None and not isinstance(walker, SCOPES):
        if isinstance(walker, ast.stmt):
            found.insert(0, walker)
        walker = parent_of(walker)
    return found


def has_in_it(statement: ast.stmt, site: Site) -> bool:
    return statement.lineno <= site.f_lineno <= (statement.end_lineno or statement.lineno)


def parting(one: Stack, other: Stack) -> tuple[int, ast.stmt] | None:
    """Where the way to one line parts from the way to another.

    The place in the first stack, and the statement there that leads to the one line and not to the other.
    """
    if DEEPEST_STACK in (len(one), len(other)):
        return None
    for number, (site, twin) in enumerate(zip(reversed(one), reversed(other), strict=False), 1):
        if site == twin:
            continue
        here, there = site.statement(), twin.statement()
        if site.f_code is not twin.f_code or here is None or there is None:
            return None
        shared = statements_around(there)
        apart = next((each for each in statements_around(here) if each not in shared), None)
        return (len(one) - number, apart) if apart is not None else None
    return None


def part_around(site: Site, name: str = "", without: Iterable[Site] = ()) -> ast.stmt | None:
    """The outermost loop or `with` around a line that gives a name no other value and has none of some other lines in it.

    Where there is none: the statement itself.
    """
    others = [each for each in without if each.filename == site.filename]
    statement = site.statement()
    found: ast.stmt | None = None
    for each in reversed(statements_around(statement) if statement is not None else []):
        if binds(each, name) or any(has_in_it(each, other) for other in others):
            break
        if found is None or isinstance(each, BLOCKS):
            found = each
    return found


def binds(node: ast.AST, name: str) -> bool:
    """Whether a name, `model` or `self.model`, gets another value in a statement."""
    return name.split(".")[0] in bindings_in(node) or bool(attribute_definitions(name, node))


def dotted(node: ast.AST | None) -> str | None:
    """`model`, `self.model`: what can be written on another line and means the same there."""
    walker = node
    while isinstance(walker, ast.Attribute):
        walker = walker.value
    is_name = isinstance(walker, ast.Name) and isinstance(getattr(node, "ctx", None), ast.Load)
    return ast.unparse(node) if node is not None and is_name else None


def called_at(site: Site) -> str | None:
    """The name of what a line calls, where that is called by its own name and not handed to something else that calls it."""
    node = site.node()
    name = dotted(node.func) if isinstance(node, ast.Call) else None
    if name is None or hasattr(builtins, name.split(".")[0]):
        return None
    scope = enclosing(node, *SCOPES) if node is not None else None
    for where in (scope, tree_of(site.filename)):
        known = find_definition(name, where, node) if isinstance(where, FunctionNode | ast.Module) else None
        if known is not None:
            is_other = isinstance(known.value, ast.Lambda) or (
                isinstance(known.value, ast.Call) and last_name(known.value.func) == "partial"
            )
            return None if is_other else name
    return name
