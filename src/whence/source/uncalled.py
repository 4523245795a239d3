"""Methods that are named and not called: `optimizer.step` as a statement does nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache

from whence.source.definitions import FunctionNode, own_nodes
from whence.source.edits import diff_of, insert_after
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, lines_of, tree_of

UNMADE = " A method that is named without () is not called."


def uncalled_in(scope: ast.AST, *names: str) -> Iterator[ast.Attribute]:
    """Return the statements of a function or file that are only a method's name."""
    for node in own_nodes(scope):
        match node:
            case ast.Expr(value=ast.Attribute(attr=name) as method) if name in names:
                yield method


def uncalled_beside(site: Site | None, name: str) -> Spot | None:
    """Return the only such statement in the function or the file around a line."""
    if site is None:
        return None
    scope = function_node(site) or tree_of(site.filename)
    found = list(uncalled_in(scope, name)) if scope is not None else []
    return Spot.of_node(site.filename, found[0]) if len(found) == 1 else None


def uncalled_in_program(name: str, files: Iterable[str]) -> list[Spot]:
    return [spot for filename in files for spot in _uncalled_in_file(filename, name)]


@cache
def _uncalled_in_file(filename: str, name: str) -> tuple[Spot, ...]:
    """Return such statements of a file.

    Most files have no line with this ending, and are not parsed.
    """
    if not any(line.partition("#")[0].rstrip().endswith(f".{name}") for line in lines_of(filename)):
        return ()
    tree = tree_of(filename)
    scopes = (
        (tree, *(each for each in ast.walk(tree) if isinstance(each, FunctionNode)))
        if tree is not None
        else ()
    )
    return tuple(
        Spot.of_node(filename, node) for scope in scopes for node in uncalled_in(scope, name)
    )


def called(spot: Spot | None) -> str | None:
    """Return a diff that appends `()`."""
    node = spot.node() if spot is not None else None
    return (
        diff_of(insert_after(spot.filename, node, "()"))
        if spot is not None and node is not None
        else None
    )
