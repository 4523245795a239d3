"""Discarded shuffles: `rng.permutation(order)` as a statement changes nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whence.source.files import program_files
from whence.source.spots import Spot
from whence.source.text import last_name, tree_of

# These have no effect besides their result.
DRAWS = frozenset({"permutation", "permuted", "randperm", "sample"})
SHUFFLES = frozenset({"shuffle", "random_shuffle"})
# These return a new object; shuffling it does not change the original.
COPIES = frozenset(
    {
        "list",
        "tolist",
        "copy",
        "deepcopy",
        "array",
        "sorted",
        "clone",
        "range",
        "keys",
        "values",
        "items",
    }
)


def discarded_draw(scope: ast.AST) -> ast.expr | None:
    """Return the only place in a function, class or file that draws an order and discards it."""
    found = list(_draws_in(scope))
    return found[0] if len(found) == 1 else None


def discarded_in_program() -> Spot | None:
    """Return the only such place in the whole program."""
    trees = ((filename, tree_of(filename)) for filename in program_files())
    found = [
        (filename, node) for filename, tree in trees if tree is not None for node in _draws_in(tree)
    ]
    return Spot.of_node(*found[0]) if len(found) == 1 else None


def _draws_in(scope: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(scope):
        match node:
            case ast.Expr(value=ast.Call() as call) if _only_gives(call) or _shuffles_copy(call):
                yield call
            case ast.Expr(value=ast.Subscript(slice=ast.Call() as index)) if _only_gives(index):
                yield node.value


def _only_gives(call: ast.Call) -> bool:
    into = {each.arg for each in call.keywords} & {"out", "inplace"}
    return last_name(call.func) in DRAWS and not into and bool(call.args or call.keywords)


def _shuffles_copy(call: ast.Call) -> bool:
    given = call.args[0] if call.args else None
    return (
        last_name(call.func) in SHUFFLES
        and isinstance(given, ast.Call)
        and last_name(given.func) in COPIES
    )
