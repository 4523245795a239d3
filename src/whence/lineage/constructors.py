"""Where the number in a constructor comes from: up through those that only pass it on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from torch import nn

from whence.lineage.grounds import Ground
from whence.source.classes import assignment_of
from whence.source.definitions import (
    FunctionNode,
    Kind,
    argument_for,
    class_of_method,
    default_for,
    find_definition,
)
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import enclosing, function_node, last_name, statement_of, tree_of
from whence.tape.tape import Call

CREATIONS = frozenset({"zeros", "ones", "empty", "randn", "rand"})


def argument_origin(stack: tuple[Site, ...], position: int, name: str) -> Spot | None:
    """The call that fixes an argument of a layer: the layer's own constructor, or an outer one whose parameter it is."""
    return _given(stack, position, name)[0]


def counted_at(stack: tuple[Site, ...], position: int, name: str) -> Spot | None:
    """Where an argument of a layer is computed, `n = len(names)`; None where it is a plain number, or nothing that can be told."""
    _, argument, outside = _given(stack, position, name)
    if isinstance(argument, ast.Call) and outside is not None:
        return Spot.of_node(outside.filename, argument)
    scope = function_node(outside) if outside is not None else None
    for where in (scope, tree_of(outside.filename) if outside is not None else None):
        known = (
            find_definition(argument.id, where, argument)
            if isinstance(argument, ast.Name) and where
            else None
        )
        if known is not None and outside is not None and known.value is not None:
            computed = any(isinstance(each, ast.Call) for each in ast.walk(known.value))
            return Spot.of_node(outside.filename, known.node) if computed else None
    return None


def argument_given(
    stack: tuple[Site, ...], position: int, name: str
) -> tuple[ast.expr | None, Site | None]:
    """The expression that an argument of a layer is given as, outermost, and where that stands."""
    return _given(stack, position, name)[1:]


def caller_argument(stack: tuple[Site, ...], name: str) -> ast.expr | None:
    """What the function of the innermost site was given for a parameter, as its caller writes it."""
    function = function_node(stack[0])
    call = stack[1].node() if len(stack) > 1 else None
    if not isinstance(function, FunctionNode) or not isinstance(call, ast.Call):
        return None
    passed = argument_for(call, function, name, bound=class_of_method(function) is not None)
    return passed if passed is not default_for(function, name) else None


def argument_names(stack: tuple[Site, ...], position: int, name: str) -> set[str]:
    """The names that an argument of a layer goes by, on its way to the layer's constructor; none for a plain number."""
    if not stack:
        return set()
    ways = _ways_up(stack, layer_argument(stack, position, name), Spot.of_site(stack[0]))
    return {
        found for _, argument, _ in ways if argument is not None and (found := last_name(argument))
    }


def layer_argument(stack: tuple[Site, ...], position: int, name: str) -> ast.expr | None:
    """An argument as the layer's own constructor is given it."""
    node = stack[0].node() if stack else None
    if not isinstance(node, ast.Call):
        return None
    named = next((each.value for each in node.keywords if each.arg == name), None)
    return named or (node.args[position] if position < len(node.args) else None)


def size_given(call: Call, axis: int) -> Spot | None:
    """Where somebody else said how long an axis of a new tensor is to be: up from the parameter that it was made with."""
    node = call.site.node() if call.site is not None else None
    size = _size(node, axis) if isinstance(node, ast.Call) else None
    if size is None:
        return None
    spot, _, outside = _up(call.stack, size, Spot.of_site(call.stack[0]))
    return spot if outside is not call.stack[0] else None


def size_passed(node: ast.expr, ground: Ground, axis: int) -> Spot | None:
    """The same for an expression that was found in the source: up through the calls that led to it."""
    size = _size(node, axis) if isinstance(node, ast.Call) else None
    spot: Spot | None = None
    while (
        isinstance(size, ast.Name)
        and isinstance(ground.scope, FunctionNode)
        and ground.caller is not None
    ):
        definition = find_definition(size.id, ground.scope, statement_of(size))
        call, outside = ground.caller
        passed = argument_for(
            call, ground.scope, size.id, bound=class_of_method(ground.scope) is not None
        )
        if definition is None or definition.kind is not Kind.PARAMETER or passed is None:
            break
        if passed is default_for(ground.scope, size.id):
            break
        size, spot, ground = passed, Spot.of_node(outside.filename, call), outside
    return spot


def attribute_size(module: nn.Module, name: str, stack: tuple[Site, ...], axis: int) -> Spot | None:
    """The same for a tensor that a module makes for itself when it is built, with what it was given."""
    definition = assignment_of(type(module), name)
    made = definition[0].value if definition is not None else None
    call = stack[0].node() if stack else None
    for node in ast.walk(made) if made is not None else ():
        size = (
            _size(node, axis)
            if isinstance(node, ast.Call) and last_name(node.func) in CREATIONS
            else None
        )
        method = enclosing(node, ast.FunctionDef)
        if (
            not isinstance(size, ast.Name)
            or not isinstance(method, ast.FunctionDef)
            or not isinstance(call, ast.Call)
        ):
            continue
        known = find_definition(size.id, method, statement_of(node))
        passed = argument_for(call, method, size.id, bound=True)
        is_given = passed is not None and passed is not default_for(method, size.id)
        if known is not None and known.kind is Kind.PARAMETER and is_given:
            return Spot.of_site(stack[0])
    return None


def _size(node: ast.Call, axis: int) -> ast.expr | None:
    """The expression for the length of an axis, counted from the end, in `torch.zeros(1, length, width)`, also by way of a variable."""
    sizes, only = node.args, node.args[0] if len(node.args) == 1 else None
    scope = enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
    if isinstance(only, ast.Name) and scope is not None:
        known = find_definition(only.id, scope, statement_of(node))
        only = known.value if known is not None and not known.path else None
    if isinstance(only, ast.Tuple | ast.List):
        sizes = only.elts
    return sizes[axis] if -len(sizes) <= axis < 0 else None


Given = tuple[Spot | None, ast.expr | None, Site | None]
"""A call, the expression that it gives, and where it stands."""


def _given(stack: tuple[Site, ...], position: int, name: str) -> Given:
    if not stack:
        return None, None, None
    spot = Spot.of_site(stack[0])
    if not isinstance(stack[0].node(), ast.Call):
        return spot, None, None
    return _up(stack, layer_argument(stack, position, name), spot)


def _up(stack: tuple[Site, ...], argument: ast.expr | None, spot: Spot) -> Given:
    """While an expression is a parameter of its function: what the caller passes for it."""
    *_, last = _ways_up(stack, argument, spot)
    return last


def _ways_up(stack: tuple[Site, ...], argument: ast.expr | None, spot: Spot) -> Iterator[Given]:
    here = stack[0]
    yield spot, argument, here
    for inner, outer in pairwise(stack):
        function = function_node(inner)
        if not isinstance(argument, ast.Name) or not isinstance(function, FunctionNode):
            break
        definition = find_definition(argument.id, function, statement_of(argument) or argument)
        if definition is None or definition.kind is not Kind.PARAMETER:
            break
        call = outer.node()
        if not isinstance(call, ast.Call):
            break
        passed = argument_for(
            call, function, argument.id, bound=class_of_method(function) is not None
        )
        if passed is None or passed is default_for(function, argument.id):
            break
        argument, spot, here = passed, Spot.of_site(outer), outer
        yield spot, argument, here
