"""Where the number in a layer's constructor comes from: up through the constructors that only pass it on."""

from __future__ import annotations

import ast
from itertools import pairwise

from whence.source.definitions import FunctionNode, Kind, argument_for, class_of_method, default_for, find_definition
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, statement_of


def argument_origin(stack: tuple[Site, ...], position: int, name: str) -> Spot | None:
    """The call that fixes an argument of a layer: the layer's own constructor, or an outer one whose parameter it is."""
    if not stack:
        return None
    spot = Spot.of_site(stack[0])
    node = stack[0].node()
    if not isinstance(node, ast.Call):
        return spot
    argument = next((each.value for each in node.keywords if each.arg == name), None)
    if argument is None:
        argument = node.args[position] if position < len(node.args) else None
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
        passed = argument_for(call, function, argument.id, bound=class_of_method(function) is not None)
        if passed is None or passed is default_for(function, argument.id):
            break
        argument, spot = passed, Spot.of_site(outer)
    return spot
