"""The turn of a loop in which something failed, made once more from the program's own lines.

Runs the program's code: only ever in a child process. What the turn has changed already stays changed, so that this is not the
same turn; but it goes the same way, and where it fails at the same line it can be watched on its way there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from whence.source.sites import Site, variables
from whence.source.text import parent_of, statement_of

LOOPS = (ast.For, ast.AsyncFor, ast.While)
WHOLE = (ast.FunctionDef, ast.AsyncFunctionDef)
LEFT = "__left__"


class _Left(Exception):
    """The turn ends before it comes to the line."""


def turn_of(site: Site, frame: FrameType) -> Callable[[], None] | None:
    """The lines of the innermost loop, or else of the function, up to and with the statement that a site stands in."""
    node = site.node()
    statement = statement_of(node) if node is not None else site.statement()
    body = _leading_to(statement) if statement is not None else None
    if body is None:
        return None
    try:
        *before, last = [_compiled(each, site) for each in body]
    except (SyntaxError, ValueError):
        return None
    names = {**frame.f_globals, **variables(frame), LEFT: _Left}

    def run() -> None:
        for code in before:
            try:
                exec(code, names)
            except _Left:
                return
            except Exception:
                # It cannot be done twice: the next batch cannot be had. What it gave is still there.
                continue
        exec(last, names)

    return run


def _compiled(statement: ast.stmt, site: Site) -> CodeType:
    """As a program of its own, which goes by the name of the function that it stands in."""
    module = _Leaving().visit(ast.Module([_copied(statement)], []))
    code = compile(ast.fix_missing_locations(module), site.filename, "exec", dont_inherit=True)
    own = site.f_code
    return code.replace(co_name=own.co_name, co_qualname=own.co_qualname, co_firstlineno=own.co_firstlineno)


def _leading_to(statement: ast.stmt) -> list[ast.stmt] | None:
    """With the contexts around it, and without what would catch its failure."""
    body: list[ast.stmt] = [statement]
    current: ast.AST = statement
    while True:
        parent = parent_of(current)
        block = next((each for each in _blocks(parent) if current in each), None) if parent is not None else None
        if parent is None or block is None:
            return None
        if current is not statement:
            body = [_with_body(current, body)] if isinstance(current, ast.With | ast.AsyncWith) else body
        body = [*block[: block.index(current)], *body]  # type: ignore[arg-type]
        if isinstance(parent, LOOPS + WHOLE):
            return body
        current = parent


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    found = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [each for each in found if isinstance(each, list)]


def _with_body(node: ast.With | ast.AsyncWith, body: list[ast.stmt]) -> ast.stmt:
    return ast.copy_location(type(node)(items=node.items, body=body), node)


def _copied(tree: Any) -> Any:
    """Without the links to parents that hang on the trees of files."""
    if isinstance(tree, list):
        return [_copied(each) for each in tree]
    if not isinstance(tree, ast.AST):
        return tree
    return ast.copy_location(type(tree)(**{name: _copied(each) for name, each in ast.iter_fields(tree)}), tree)


class _Leaving(ast.NodeTransformer):
    """Where a statement would leave the loop or the function that it stood in, it ends the turn.

    Of what is in loops within, only returns lead out; of what is in functions, nothing.
    """

    def __init__(self, within: bool = False) -> None:
        self._within = within

    def visit(self, node: ast.AST) -> Any:
        match node:
            case ast.Return():
                return _left(node)
            case ast.Break() | ast.Continue():
                return node if self._within else _left(node)
            case ast.For() | ast.AsyncFor() | ast.While():
                return _Leaving(within=True).generic_visit(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return node
            case ast.Nonlocal():
                return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)


def _left(node: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Raise(exc=ast.Name(LEFT, ast.Load()), cause=None), node)
