"""What a variable was before it was bound anew: computed again, in a child process, from what is still there.

`table = np.stack([a, b])`, then `table = table / spread`: the first table is gone, but a and b are not.
"""

from __future__ import annotations

import ast
from types import FrameType
from typing import Any

from whence.lineage.elsewhere import NotPossible, run_elsewhere
from whence.lineage.looking import Unknown
from whence.lineage.properties import Property
from whence.source.definitions import Kind, find_definition, is_bound_after
from whence.source.sites import variables
from whence.source.text import enclosing, statement_of

DEEPEST = 6
PATIENCE = 5.0


def held_before(prop: Property, node: ast.Name, scope: ast.AST, frame: FrameType) -> bool:
    """Whether the value that a name stands for, and no longer has, had a property."""
    if not prop.shows_in_lines:
        return False
    try:
        return run_elsewhere(lambda: bool(prop.holds(_again(node, scope, frame, 0))), PATIENCE)
    except (NotPossible, Unknown):
        return False


def _again(node: ast.Name, scope: ast.AST, frame: FrameType, depth: int) -> Any:
    """Runs the program's code: only ever in a child process."""
    definition = find_definition(node.id, scope, statement_of(node) or node)
    made = definition.value if definition is not None and definition.kind is Kind.ASSIGNED else None
    if definition is None or made is None or definition.path or depth > DEEPEST or _comes_again(definition.node):
        raise Unknown
    names = {**frame.f_globals, **variables(frame)}
    for part in ast.walk(made):
        if isinstance(part, ast.Name) and is_bound_after(part.id, scope, definition.node):
            names[part.id] = _again(part, scope, frame, depth + 1)
    return eval(compile(ast.Expression(made), "<again>", "eval"), names)


def _comes_again(statement: ast.AST) -> bool:
    """In a loop a value depends on the turn."""
    return isinstance(
        enclosing(statement, ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module), ast.For | ast.While
    )
