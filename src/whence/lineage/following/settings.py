"""An attribute, an entry or a variable of a file that is set in several places, and when each of them does so."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from whence.source.definitions import (
    Definition,
    Kind,
    attributes_set_in,
    find_definition,
    is_empty,
    names_set_in,
    own_nodes,
)
from whence.source.files import program_files
from whence.source.text import enclosing, last_name, tree_of

BIRTH = frozenset({"__init__", "__post_init__", "__new__", "setup"})


Kinds = Mapping[str, str]
"""Classes by their names, and the files that they stand in."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One place that sets it."""

    definition: Definition
    filename: str
    scope: ast.AST
    at_first: bool
    """It is done when the object is made, or the file is read: before anything else."""
    target: str
    """What is set, as it is written there."""
    whole: bool = True
    """It sets all of it, and not only the entry that is asked for."""


def attribute_settings(
    name: str, kinds: Kinds, path: tuple[Any, ...], filename: str
) -> list[Setting]:
    """The places where an attribute of objects of these classes is set, by their own methods or by others."""
    places = [
        (file, scope)
        for file in dict.fromkeys((filename, *program_files()))
        for scope in _scopes(file)
    ]
    is_shared = any(
        _is_own(target) and not _is_method_of(kinds, scope, file)
        for file, scope in places
        for target, _ in attributes_set_in(scope, name)
    )
    found: list[Setting] = []
    for file, scope in places:
        for target, definition in attributes_set_in(scope, name):
            if _is_of(target, scope, file, kinds, is_shared):
                first = _is_own(target) and getattr(scope, "name", "") in BIRTH
                found += _setting(
                    Setting(definition, file, scope, first, ast.unparse(target)), path
                )
        for held, key, definition in _entries_set_in(scope):
            is_it = isinstance(held, ast.Attribute) and held.attr == name and path[:1] == (key,)
            if is_it and _is_of(held, scope, file, kinds, is_shared):
                found.append(
                    Setting(definition, file, scope, False, ast.unparse(held), whole=False)
                )
    return found


def variable_settings(name: str, filename: str, path: tuple[Any, ...]) -> list[Setting]:
    """The places where a variable of a file is set: when the file is read, and by functions that call it global."""
    found: list[Setting] = []
    for scope in _scopes(filename):
        is_file = isinstance(scope, ast.Module)
        is_global = any(
            isinstance(each, ast.Global) and name in each.names for each in own_nodes(scope)
        )
        for definition in names_set_in(scope, name) if is_file or is_global else ():
            found += _setting(Setting(definition, filename, scope, is_file, name), path)
        if not is_file and not is_global and find_definition(name, scope, None) is not None:
            # A variable of the function's own.
            continue
        for held, key, definition in _entries_set_in(scope):
            if isinstance(held, ast.Name) and held.id == name and path[:1] == (key,):
                found.append(Setting(definition, filename, scope, is_file, name, whole=False))
    return found


def _is_own(target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    )


def _is_of(target: ast.expr, scope: ast.AST, file: str, kinds: Kinds, is_shared: bool) -> bool:
    """Whether it is an attribute of an object of these classes. `is_shared` if others have one of that name too."""
    if _is_own(target):
        return _is_method_of(kinds, scope, file)
    held = target.value if isinstance(target, ast.Attribute) else None
    made = find_definition(held.id, scope, None) if isinstance(held, ast.Name) else None
    if made is not None and isinstance(made.value, ast.Call):
        return last_name(made.value.func) in kinds
    return not is_shared


def _is_method_of(kinds: Kinds, scope: ast.AST, file: str) -> bool:
    """Classes of the same name may stand in several files."""
    owner = enclosing(scope, ast.ClassDef)
    if not isinstance(owner, ast.ClassDef) or owner.name not in kinds:
        return False
    return os.path.abspath(kinds[owner.name]) == os.path.abspath(file)


def _setting(setting: Setting, path: tuple[Any, ...]) -> Iterator[Setting]:
    """What is empty, or a dict that is written out and has not this entry, sets nothing."""
    value = setting.definition.value
    if value is None or is_empty(value):
        return
    if (
        path
        and isinstance(value, ast.Dict)
        and path[0] not in {getattr(key, "value", None) for key in value.keys}
    ):
        return
    yield setting


def _scopes(filename: str) -> Iterator[ast.AST]:
    tree = tree_of(filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _entries_set_in(scope: ast.AST) -> Iterator[tuple[ast.expr, Any, Definition]]:
    """`held["key"] = value`, `held.update(key=value)`: what is set, under which key, and by what."""
    for node in own_nodes(scope):
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=held, slice=ast.Constant(value=key))], value=value
            ):
                yield held, key, Definition(Kind.ASSIGNED, node, value)
            case ast.Call(
                func=ast.Attribute(value=held, attr="update"),
                args=[ast.Dict(keys=keys, values=values)],
            ):
                for name, value in zip(keys, values, strict=True):
                    if isinstance(name, ast.Constant):
                        yield held, name.value, Definition(Kind.ASSIGNED, node, value)
            case ast.Call(
                func=ast.Attribute(value=held, attr="update"), args=[], keywords=keywords
            ):
                yield from (
                    (held, each.arg, Definition(Kind.ASSIGNED, node, each.value))
                    for each in keywords
                )
