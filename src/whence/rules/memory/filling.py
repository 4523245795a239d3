"""Find the line that adds something to a container or a variable."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from whence.ledgers.audit import Audit
from whence.ledgers.memory import Holding
from whence.ledgers.reaching import Alias
from whence.source.definitions import (
    FunctionNode,
    all_parameter_names,
    argument_for,
    class_of_method,
)
from whence.source.spots import Spot
from whence.source.text import last_name, tree_of

FILLS = ("append", "extend", "insert", "appendleft", "add", "setdefault", "update")
DETACHES = frozenset({"item", "detach", "tolist", "numpy", "float", "int", "str", "len"})
DEEPEST = 2
NAMED = (ast.FunctionDef, ast.AsyncFunctionDef)

FILL, UPDATE, REPLACE = 3, 2, 1
"""Levels: adds to it; recomputes it from itself; assigns a new value to it or to an entry."""


@dataclass(frozen=True, slots=True)
class Store:
    node: ast.AST
    filename: str
    level: int
    closeness: int
    """How much of an entry's name the code spells out."""
    is_inside: bool
    """Whether it is in the function or class that owns the variable."""
    keeps: bool
    """Whether the stored value may still have its graph."""

    @property
    def rank(self) -> tuple[int, int, bool, bool]:
        return self.level, self.closeness, self.keeps, self.is_inside


def filled_at(holding: Holding, audit: Audit) -> Spot | None:
    """Find `x.append(...)`, `x[...] = ...`, `x += ...` or `x = ...`, by any name of `x`."""
    found: list[Store] = []
    for filename in _files(holding, audit):
        tree = tree_of(filename)
        if tree is not None:
            found += [
                each for alias in holding.aliases for each in _stores_of(alias, tree, filename)
            ]
    if not found:
        return None
    best = max(each.rank for each in found)
    first, *rest = [each for each in found if each.rank == best]
    # A variable that is carried over gets its last value at the end of a step.
    last = (
        [each for each in rest if each.filename == first.filename][-1:]
        if holding.kind == "tensor"
        else []
    )
    chosen = last[0] if last else first
    return Spot.of_node(chosen.filename, chosen.node)


def _files(holding: Holding, audit: Audit) -> Iterator[str]:
    found = [alias.code.co_filename for alias in holding.aliases if alias.code is not None]
    found += [frame.f_code.co_filename for frame in audit.frames]
    found += [
        site.filename
        for module in audit.modules.known()
        for site in audit.modules.built_at(module)[:1]
    ]
    found += [site.filename for call in list(audit.tape.calls)[-200:] for site in call.stack]
    yield from dict.fromkeys(found)


def _stores_of(alias: Alias, tree: ast.AST, filename: str) -> Iterator[Store]:
    if not alias.owners:
        for scope, is_inside in _scopes_of_variable(alias.code, tree, filename):
            yield from _stores(
                scope, alias.name, filename, is_inside=is_inside, functions=_functions(tree)
            )
        return
    classes = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef) and each.name in alias.owners
    ]
    for scope in classes:
        yield from _stores(scope, alias.name, filename, is_inside=True, functions=_functions(tree))
    if alias.name.startswith("self."):
        # From outside: `trainer.losses.append(loss)`.
        own = {id(node) for each in classes for node in ast.walk(each)}
        for store in _stores(
            tree, alias.name.removeprefix("self"), filename, is_inside=False, functions={}
        ):
            if id(store.node) not in own:
                yield store


def _scopes_of_variable(code: Any, tree: ast.AST, filename: str) -> list[tuple[ast.AST, bool]]:
    """The function that owns a variable, and the whole file if another function may fill it."""
    if code is None or code.co_filename != filename or code.co_name == "<module>":
        return [(tree, code is not None and code.co_filename == filename)]
    functions = [
        each
        for each in ast.walk(tree)
        if isinstance(each, NAMED)
        and each.name == code.co_name
        and each.lineno >= code.co_firstlineno
    ]
    first = min(functions, key=lambda each: each.lineno, default=None)
    return ([(first, True)] if first is not None else []) + [(tree, False)]


def _functions(tree: ast.AST) -> dict[str, FunctionNode]:
    return {each.name: each for each in ast.walk(tree) if isinstance(each, NAMED)}


def _stores(
    scope: ast.AST,
    name: str,
    filename: str,
    *,
    is_inside: bool,
    functions: dict[str, FunctionNode],
    depth: int = 0,
) -> Iterator[Store]:
    """Statements that store into a variable or an entry, also in functions that receive it."""
    for node in ast.walk(scope):
        for level, closeness, value in _stored(node, name):
            yield Store(node, filename, level, closeness, is_inside, not _is_detached(value))
        if (
            isinstance(node, ast.Call)
            and depth < DEEPEST
            and (function := functions.get(last_name(node.func)))
        ):
            for parameter in _passed_as(node, function, name):
                inner = _stores(
                    function,
                    parameter,
                    filename,
                    is_inside=is_inside,
                    functions=functions,
                    depth=depth + 1,
                )
                yield from (each for each in inner if each.level == FILL)


def _stored(node: ast.AST, name: str) -> Iterator[tuple[int, int, ast.AST | None]]:
    """What a statement does to a variable, how closely it matches the name, and what it stores."""
    match node:
        case ast.Call(func=ast.Attribute(value=subject, attr=attr), args=args) if attr in FILLS:
            closeness, is_entry = _closeness(subject, name)
            if closeness:
                yield (
                    FILL if is_entry or "[" not in name else REPLACE,
                    closeness,
                    args[-1] if args else None,
                )
        case ast.AugAssign(target=target, value=value):
            closeness, is_entry = _closeness(target, name)
            if closeness and (is_entry or "[" not in name):
                yield FILL, closeness, value
        case ast.Assign(targets=targets, value=value):
            for part in (each for whole in targets for each in _parts(whole)):
                yield from _assigned(part, value, name)


def _assigned(
    target: ast.expr, value: ast.expr, name: str
) -> Iterator[tuple[int, int, ast.AST | None]]:
    base = name.partition("[")[0]
    mentions = any(_is_base(each, base) for each in ast.walk(value) if isinstance(each, ast.expr))
    held, indices = _peeled(target)
    if not _is_base(held, base):
        return
    if indices and "[" not in name:
        yield FILL, 1, value
    elif mentions:
        yield UPDATE, 1, value
    elif not isinstance(value, ast.List | ast.Dict | ast.Constant | ast.Tuple):
        yield REPLACE, 1, value


def _closeness(subject: ast.expr, name: str) -> tuple[int, bool]:
    """How much of a name an expression matches (0: none), and whether it is an entry of it."""
    base, _, key = name.partition("[")
    held, indices = _peeled(subject)
    if not _is_base(held, base):
        return 0, False
    if not key or not indices:
        return int(not indices), False
    written = [
        str(each.value)
        for index in indices
        for each in ast.walk(index)
        if isinstance(each, ast.Constant)
    ]
    return (
        (1 + sum(map(len, written)), True) if all(each in key for each in written) else (0, False)
    )


def _peeled(node: ast.expr) -> tuple[ast.expr, list[ast.expr]]:
    """Split an expression into the container and its indices."""
    indices: list[ast.expr] = []
    while True:
        match node:
            case ast.Subscript(value=held, slice=index):
                pass
            case ast.Call(
                func=ast.Attribute(value=held, attr="setdefault" | "get"), args=[index, *_]
            ):
                pass
            case _:
                return node, indices
        indices.append(index)
        node = held


def _is_base(node: ast.expr, base: str) -> bool:
    """Whether a node is the variable; `.losses` matches that attribute of anything but `self`."""
    if base.startswith("."):
        return (
            isinstance(node, ast.Attribute)
            and f".{node.attr}" == base
            and ast.unparse(node.value) != "self"
        )
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == base


def _passed_as(call: ast.Call, function: FunctionNode, name: str) -> Iterator[str]:
    """The parameters that receive a variable, or an entry of it."""
    bound = class_of_method(function) is not None
    given = {id(each) for each in (*call.args, *(keyword.value for keyword in call.keywords))}
    for parameter in all_parameter_names(function):
        passed = argument_for(call, function, parameter, bound=bound)
        if passed is None or id(passed) not in given:
            continue
        held, indices = _peeled(passed)
        base, _, key = name.partition("[")
        if _is_base(held, base):
            yield parameter if indices or not key else f"{parameter}[{key}"


def _is_detached(value: ast.AST | None) -> bool:
    """Whether a value has no graph: `loss.item()`, `h.detach().cpu()`, `float(loss)`."""
    while isinstance(value, ast.Call):
        if last_name(value.func) in DETACHES:
            return True
        value = value.func.value if isinstance(value.func, ast.Attribute) else None
    return False


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        return [name for each in target.elts for name in _parts(each)]
    return [target]
