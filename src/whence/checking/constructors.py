"""Where each layer was built, read from the source of the class that contains it.

A watch that starts later did not see the constructors.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import CodeType

from torch import nn

from whence.source.definitions import find_attribute, find_class
from whence.source.sites import Site, is_library
from whence.source.text import span_of, tree_of


def built_at(root: nn.Module) -> Iterator[tuple[nn.Module, Site]]:
    """Modules with a known constructor call: `self.name = nn.Linear(...)`, also in a Sequential."""
    for parent in root.modules():
        for name, child in parent.named_children():
            found = _assignment(type(parent), name)
            if found is None:
                continue
            code, value, globals_of = found
            yield from _sites(child, value, code, globals_of)


def _sites(
    module: nn.Module, value: ast.expr | None, code: CodeType, names: dict[str, object]
) -> Iterator[tuple[nn.Module, Site]]:
    if not isinstance(value, ast.Call):
        return
    position = _position(code, value)
    if position is not None:
        yield module, Site(code, position, value.lineno, names)
    if isinstance(module, nn.Sequential) and len(value.args) == len(module):
        for each, argument in zip(module, value.args, strict=True):
            yield from _sites(each, argument, code, names)


def _assignment(
    kind: type, name: str
) -> tuple[CodeType, ast.expr | None, dict[str, object]] | None:
    """Find `self.name = ...` in the constructor of the class or of a base class."""
    for each in kind.__mro__:
        build = vars(each).get("__init__")
        if not inspect.isfunction(build) or is_library(build.__code__.co_filename):
            continue
        tree = tree_of(build.__code__.co_filename)
        node = find_class(each.__name__, tree) if tree is not None else None
        definition = find_attribute(name, node) if node is not None else None
        if definition is not None:
            return build.__code__, definition.value, build.__globals__
    return None


def _position(code: CodeType, node: ast.Call) -> int | None:
    """Return the last instruction of the code for a call."""
    span = span_of(node)
    wanted = (span.line, span.end_line, span.column, span.end_column)
    found = [number for number, each in enumerate(code.co_positions()) if each == wanted]
    return found[-1] * 2 if found else None
