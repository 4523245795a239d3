"""What a variable was before it was bound anew: computed again, in a child process, from what is still there.

`table = np.stack([a, b])`, then `table = table / spread`: the first table is gone, but a and b are not.
"""

from __future__ import annotations

import ast
from types import FrameType
from typing import Any

from whence.lineage.looking import Unknown
from whence.lineage.properties import Property
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.source.definitions import Kind, find_definition, is_bound_after
from whence.source.sites import variables
from whence.source.text import enclosing, statement_of

DEEPEST = 6
PATIENCE = 5.0


def held_before(prop: Property, node: ast.expr, scope: ast.AST, frame: FrameType) -> bool:
    """Whether the value that a name, or an entry of what it names, stands for, and no longer has, had a property."""
    if not prop.shows_in_lines:
        return False
    try:
        return run_in_child(
            lambda: bool(prop.holds(as_it_was(node, scope, frame))), PATIENCE, need=Need.EXPRESSION
        )
    except (NotPossible, Unknown):
        return False


def as_it_was(node: ast.expr, scope: ast.AST, frame: FrameType, depth: int = 0) -> Any:
    """What an expression of a function gave. Runs the program's code: only ever in a child process."""
    names = {**frame.f_globals, **variables(frame)}
    statement = statement_of(node) or node
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and is_bound_after(part.id, scope, statement):
            names[part.id] = _made_again(part, scope, frame, depth)
    return eval(compile(ast.Expression(node), "<again>", "eval"), names)


def _made_again(node: ast.Name, scope: ast.AST, frame: FrameType, depth: int) -> Any:
    definition = find_definition(node.id, scope, statement_of(node) or node)
    made = definition.value if definition is not None and definition.kind is Kind.ASSIGNED else None
    if definition is None or made is None or depth > DEEPEST or _comes_again(definition.node):
        raise Unknown
    value = as_it_was(made, scope, frame, depth + 1)
    for number in definition.path:
        value = value[number]
    return value


def _comes_again(statement: ast.AST) -> bool:
    """In a loop a value depends on the turn."""
    return isinstance(
        enclosing(statement, ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module),
        ast.For | ast.While,
    )
