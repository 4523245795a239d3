"""The program's classes: where they are defined, and where they set their attributes."""

from __future__ import annotations

import ast
import sys

from whence.source.definitions import Definition, find_attribute, find_attributes, find_class
from whence.source.sites import is_library
from whence.source.spots import Spot
from whence.source.text import tree_of


def class_node(kind: type) -> tuple[ast.ClassDef | None, str]:
    """Return the syntax node of a class and its file; no node for a library's class."""
    filename = getattr(sys.modules.get(kind.__module__), "__file__", None) or "<string>"
    tree = None if is_library(filename) else tree_of(filename)
    return (find_class(kind.__name__, tree) if tree is not None else None), filename


def assignment_of(kind: type, name: str) -> tuple[Definition, str] | None:
    """Return `self.name = ...` in the class or in the program's base classes, and the file."""
    for each in kind.__mro__:
        node, filename = class_node(each)
        definition = find_attribute(name, node) if node is not None else None
        if definition is not None:
            return definition, filename
    return None


def assignments_of(kind: type, name: str) -> list[tuple[Definition, str]]:
    """Return all such assignments in the class and in the program's base classes."""
    known = (class_node(each) for each in kind.__mro__)
    return [
        (definition, filename)
        for node, filename in known
        if node is not None
        for _, definition in find_attributes(name, node)
    ]


def attribute_of(kind: type, name: str) -> Spot | None:
    """Return the place of the assigned value."""
    found = assignment_of(kind, name)
    value = found[0].value if found is not None else None
    return Spot.of_node(found[1], value) if found is not None and value is not None else None


def method_of(kind: type, name: str) -> tuple[ast.FunctionDef | None, str]:
    """Return the syntax node of a method and its file."""
    for each in kind.__mro__:
        node, filename = class_node(each)
        for method in node.body if node is not None else ():
            if isinstance(method, ast.FunctionDef) and method.name == name:
                return method, filename
    return None, ""
