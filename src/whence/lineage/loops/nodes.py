"""What several readers of the program's lines ask about a syntax node."""

from __future__ import annotations

import ast

from whence.source.text import enclosing

DEEPEST = 12
LAST = (1 << 30, 0)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)


def module_of(node: ast.AST) -> ast.AST | None:
    return enclosing(node, ast.Module)


def is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == name


def position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def is_owner(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "numpy", "torch", "copy")


def is_variable(node: ast.expr) -> bool:
    """A name, or an attribute of `self`."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and is_owner(node.value))
