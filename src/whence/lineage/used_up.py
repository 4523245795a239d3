"""An iterator that was at its end before it was handed over: which line has used it up, and which line made it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from whence.lineage.constructors import caller_argument
from whence.source.definitions import (
    FunctionNode,
    Kind,
    all_parameter_names,
    argument_for,
    class_of_method,
    find_definition,
    find_function,
    own_nodes,
)
from whence.source.files import program_files
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, last_name, parent_of, statement_of, tree_of

DEEPEST = 8
# What goes through all that it is given.
CONSUMES = frozenset({"list", "tuple", "set", "frozenset", "dict", "sum", "sorted", "max", "min", "any", "all", "deque", "Counter", "fsum",
                      "clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "get_total_norm", "extend", "update", "join"})  # fmt: skip
WRAPS = frozenset({"enumerate", "zip", "map", "filter", "chain", "islice", "iter", "reversed"})
"""These go through it as far as somebody goes through them."""


@dataclass(slots=True)
class UsedUp:
    """What is known of the iterator's way. `made` is the expression that makes it, with its file."""

    lines: list[Spot] = field(default_factory=list)
    made: tuple[str, ast.expr] | None = None

    @property
    def line(self) -> Spot | None:
        """The line that used it up, if there is just one that can have done so."""
        return (
            self.lines[0] if len({(each.filename, each.line) for each in self.lines}) == 1 else None
        )


def used_up(stack: tuple[Site, ...], given: ast.expr) -> UsedUp:
    """Follow an iterator from the expression that hands it over: back over names and callers, to attributes and what made it."""
    found = UsedUp()
    _follow(stack, given, found, 0)
    return found


def _follow(stack: tuple[Site, ...], given: ast.expr, found: UsedUp, depth: int) -> None:
    scope = function_node(stack[0]) if stack else None
    if depth > DEEPEST or scope is None:
        return
    filename = stack[0].filename
    if isinstance(given, ast.Attribute):
        found.lines += _of_attribute(given)
        found.made = _set_to(given)
        return
    if not isinstance(given, ast.Name):
        found.made = (filename, given) if depth else None
        return
    statement = statement_of(given)
    definition = find_definition(given.id, scope, statement)
    if definition is None and not isinstance(scope, ast.Module):
        scope = tree_of(filename) or scope
        definition = find_definition(given.id, scope, None)
        statement = None
    if definition is None:
        return
    uses = [each for each in _reads(scope, given.id) if each is not given]
    if statement is not None and definition.kind is Kind.ASSIGNED:
        uses = [each for each in uses if each.lineno >= getattr(definition.node, "lineno", 0)]
    if statement is not None:
        uses = [each for each in uses if each.lineno < statement.lineno]
    found.lines += [
        spot for each in uses if (spot := _consuming(each, filename, depth)) is not None
    ]
    if definition.kind is Kind.PARAMETER:
        passed = caller_argument(stack, given.id)
        if passed is not None:
            _follow(stack[1:], passed, found, depth + 1)
    elif definition.kind is Kind.ASSIGNED and definition.value is not None and not definition.path:
        if isinstance(definition.value, ast.Name | ast.Attribute):
            _follow(stack, definition.value, found, depth + 1)
        else:
            found.made = filename, definition.value


def _reads(scope: ast.AST, name: str) -> list[ast.Name]:
    names = (each for each in own_nodes(scope) if isinstance(each, ast.Name) and each.id == name)
    return [each for each in names if isinstance(each.ctx, ast.Load)]


def _of_attribute(given: ast.Attribute) -> Iterator[Spot]:
    """All that goes through an attribute of that name, anywhere in the program."""
    for filename in program_files():
        for node in ast.walk(tree_of(filename) or ast.Module([], [])):
            if (
                isinstance(node, ast.Attribute)
                and node.attr == given.attr
                and isinstance(node.ctx, ast.Load)
            ):
                spot = _consuming(node, filename, 0) if node is not given else None
                if spot is not None:
                    yield spot


def _set_to(given: ast.Attribute) -> tuple[str, ast.expr] | None:
    """What an attribute of that name is set to, if that is done in one place."""
    found = [
        (filename, node.value)
        for filename in program_files()
        for node in ast.walk(tree_of(filename) or ast.Module([], []))
        if isinstance(node, ast.Assign)
        and any(_is_attribute(each, given.attr) for each in node.targets)
    ]
    return found[0] if len(found) == 1 else None


def _is_attribute(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _consuming(use: ast.expr, filename: str, depth: int) -> Spot | None:
    """Where what is read here is gone through to its end: here, or in the function that is given it."""
    parent = parent_of(use)
    here = Spot.of_node(filename, use)
    match parent:
        case ast.For(iter=through) | ast.comprehension(iter=through) if through is use:
            return here
        case ast.Starred() | ast.YieldFrom():
            return here
        case ast.Call(func=func) if func is not use:
            name = last_name(func)
            if name in CONSUMES or _is_optimizer(name):
                return Spot.of_node(filename, parent)
            if name in WRAPS:
                return _consuming(parent, filename, depth)
            return _in_function(parent, use, filename, depth)
    return None


def _is_optimizer(name: str) -> bool:
    return isinstance(getattr(torch.optim, name, None), type)


def _in_function(call: ast.Call, use: ast.expr, filename: str, depth: int) -> Spot | None:
    """A function of the program's that is given it, and goes through it."""
    if depth > DEEPEST:
        return None
    for file in dict.fromkeys((filename, *program_files())):
        tree = tree_of(file)
        function = find_function(last_name(call.func), tree) if tree is not None else None
        if isinstance(function, FunctionNode):
            bound = class_of_method(function) is not None
            names = [
                each
                for each in all_parameter_names(function)
                if argument_for(call, function, each, bound=bound) is use
            ]
            uses = _reads(function, names[0]) if names else []
            return next(
                (spot for each in uses if (spot := _consuming(each, file, depth + 1)) is not None),
                None,
            )
    return None
