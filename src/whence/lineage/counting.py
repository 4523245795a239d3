"""A count that was taken before what was counted grew: `size = len(words)`, and then another word."""

from __future__ import annotations

import ast
from collections.abc import Sized
from types import FrameType
from typing import Any

from whence.lineage.constructors import argument_given
from whence.lineage.looking import Unknown, attribute, look
from whence.source.classes import assignment_of
from whence.source.definitions import find_definition
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, tree_of

BUILT_IN = ("builtins", "collections")


def counted_before(
    stack: tuple[Site, ...], position: int, name: str, frames: list[FrameType]
) -> tuple[Spot, int] | None:
    """Where an argument of a layer was counted, and how many there are now."""
    argument, site = argument_given(stack, position, name)
    if argument is None or site is None:
        return None
    try:
        if isinstance(argument, ast.Attribute):
            return _attribute_count(argument, _frame(site, frames))
        for scope in (function_node(site), tree_of(site.filename)):
            known = (
                find_definition(argument.id, scope, None)
                if isinstance(argument, ast.Name) and scope
                else None
            )
            value = (
                known.value
                if known is not None
                else argument
                if isinstance(argument, ast.Call)
                else None
            )
            counted = _counted(value)
            if value is not None and counted is not None:
                return Spot.of_node(site.filename, value), _length(
                    look(counted, _frame(site, frames))
                )
    except Unknown:
        pass
    return None


def _attribute_count(node: ast.Attribute, frame: FrameType) -> tuple[Spot, int] | None:
    """`self.size = len(self.words)` in the class of a thing, and the words that the thing has now."""
    thing = look(node.value, frame)
    definition, filename = assignment_of(type(thing), node.attr) or (None, "")
    value = definition.value if definition is not None else None
    counted = _counted(value)
    if (
        value is None
        or not isinstance(counted, ast.Attribute)
        or not isinstance(counted.value, ast.Name)
    ):
        return None
    return Spot.of_node(filename, value), _length(attribute(thing, counted.attr))


def _counted(node: ast.expr | None) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[thing]):
            return thing
    return None


def _length(thing: Any) -> int:
    """Of a container of Python's own: another one's length may be anything."""
    if type(thing).__module__ not in BUILT_IN or not isinstance(thing, Sized):
        raise Unknown
    return len(thing)


def _frame(site: Site, frames: list[FrameType]) -> FrameType:
    for frame in frames:
        if frame.f_code is site.f_code:
            return frame
    raise Unknown
