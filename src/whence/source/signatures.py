"""Functions that can take one more parameter because they have a single caller."""

from __future__ import annotations

import ast

from whence.source.definitions import class_of_method
from whence.source.edits import Edit, insert_after
from whence.source.files import program_files
from whence.source.text import tree_of


def is_called_once(function: ast.FunctionDef, call: ast.Call) -> bool:
    """Return whether only this call uses a function's name, apart from its import."""
    if class_of_method(function) is not None or function.decorator_list:
        return False
    trees = [tree for filename in program_files() if (tree := tree_of(filename)) is not None]
    named = [each for tree in trees for each in ast.walk(tree) if function.name in _names_of(each)]
    imported = [each for each in named if isinstance(each, ast.alias)]
    others = [
        each
        for each in named
        if each not in imported and each is not function and each is not call.func
    ]
    return not others and not any(each.asname for each in imported)


def _names_of(node: ast.AST) -> tuple[object, ...]:
    return tuple(getattr(node, each, None) for each in ("id", "attr", "name", "value"))


def one_more_parameter(filename: str, function: ast.FunctionDef, name: str) -> Edit | None:
    arguments = function.args
    if (
        arguments.defaults
        or arguments.vararg
        or arguments.kwonlyargs
        or arguments.kwarg
        or not arguments.args
    ):
        return None
    return insert_after(filename, arguments.args[-1], f", {name}")
