"""From what a loss aims at back to the loop that takes it from the data, one batch after the other.

Read from the source alone: over names, parameters, generators and lists that are filled, through as many functions as it takes.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from whence.source.classes import class_node
from whence.source.definitions import (
    Definition,
    FunctionNode,
    Kind,
    argument_for,
    class_of_method,
    find_attribute,
    find_definition,
    parameter_names,
    returns_of,
)
from whence.source.sites import Site, is_library
from whence.source.spots import Spot
from whence.source.text import enclosing, function_node, last_name, statement_of, tree_of

DEEPEST = 60
COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# What only passes on the elements of what it is given, one after the other.
PASSING = (
    "enumerate",
    "zip",
    "iter",
    "list",
    "tuple",
    "islice",
    "tqdm",
    "trange",
    "map",
    "filter",
    "chain",
    "next",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A function of the program, what its module has defined, and who called it."""

    filename: str
    scope: ast.AST
    names: dict[str, Any] = field(repr=False)
    caller: tuple[ast.Call, Place] | None = None
    outer: tuple[Site, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop that feeds a training step, or the statement that takes a batch where the loop itself says nothing."""

    place: Place
    node: ast.AST

    @property
    def spot(self) -> Spot:
        node = self.node
        if isinstance(node, ast.For | ast.comprehension):
            node = node.iter
        return Spot.of_node(self.place.filename, node)


def place_of_site(stack: tuple[Site, ...]) -> Place | None:
    scope = function_node(stack[0]) if stack else None
    if scope is not None and stack[0].function in COMPREHENSIONS:
        node = stack[0].node()
        scope = (enclosing(node, *FUNCTIONS) if node is not None else None) or scope
    return (
        Place(stack[0].filename, scope, stack[0].f_globals, outer=stack[1:])
        if scope is not None
        else None
    )


@dataclass(slots=True)
class Feed:
    """One search. `places` are the functions that it went through."""

    places: list[Place] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def of_loss(self, stack: tuple[Site, ...]) -> Loop | None:
        """From a call of a loss: what it aims at is its second argument."""
        place = place_of_site(stack)
        node = stack[0].node() if stack else None
        if place is None or not isinstance(node, ast.Call):
            return None
        self._enter(place)
        given = [*node.args[1:2], *(each.value for each in node.keywords if each.arg == "target")]
        return next(
            (loop for each in given if (loop := self.expression(each, place)) is not None), None
        )

    def _enter(self, place: Place) -> None:
        if not any(each.scope is place.scope for each in self.places):
            self.places.append(place)

    def expression(self, node: ast.AST, place: Place, path: tuple[int, ...] = ()) -> Loop | None:
        mark = id(node), id(place.caller[0]) if place.caller is not None else 0
        if mark in self._seen or len(self._seen) > DEEPEST:
            return None
        self._seen.add(mark)
        if isinstance(node, ast.Tuple | ast.List) and path and path[0] < len(node.elts):
            return self.expression(node.elts[path[0]], place, path[1:])
        if isinstance(node, ast.Name):
            return self._name(node, place, path)
        if isinstance(node, ast.Attribute) and (made := self._attribute(node, place)) is not None:
            return self.expression(*made)
        if isinstance(node, ast.Call):
            inside = self._called(node, place, path)
            if inside is not None:
                return inside
        if isinstance(node, ast.Subscript):
            # What is taken is decided by the index.
            if (loop := self.expression(node.slice, place)) is not None:
                return loop
            return (
                Loop(place, node)
                if _moves_on(node.slice, place)
                else self.expression(node.value, place)
            )
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self._iterated(node.generators[0], place) or Loop(place, node.generators[0])
        parts = [
            each
            for each in ast.iter_child_nodes(node)
            if isinstance(each, ast.expr | ast.keyword | ast.Slice)
        ]
        return next(
            (loop for each in parts if (loop := self.expression(each, place)) is not None), None
        )

    def _name(self, node: ast.Name, place: Place, path: tuple[int, ...]) -> Loop | None:
        around = comprehension_of(node)
        if around is not None:
            return self._iterated(around, place, path) or Loop(place, around)
        definition = find_definition(node.id, place.scope, statement_of(node) or node)
        if definition is None:
            return None
        if definition.kind is Kind.LOOP:
            return self._iterated(definition.node, place, definition.path) or Loop(
                place, definition.node
            )
        if definition.kind is Kind.PARAMETER:
            return self._argument(definition, node.id, place, path)
        if definition.value is None:
            return None
        for given in filled_with(node.id, definition, place.scope):
            return self.expression(given, place, path)
        return self.expression(definition.value, place, (*definition.path, *path))

    def _argument(
        self, definition: Definition, name: str, place: Place, path: tuple[int, ...]
    ) -> Loop | None:
        passed = passed_for(definition, name, place)
        if passed is None:
            return None
        self._enter(passed[1])
        return self.expression(*passed, path)

    def _iterated(self, loop: ast.AST, place: Place, path: tuple[int, ...] = ()) -> Loop | None:
        """The loop within what a loop iterates over: a generator of the program's has one of its own."""
        source = loop.iter if isinstance(loop, ast.For | ast.comprehension) else None
        return self._within(source, place, path) if source is not None else None

    def _within(self, source: ast.AST, place: Place, path: tuple[int, ...]) -> Loop | None:
        if isinstance(source, ast.Call) and last_name(source.func) in PASSING:
            inside = (self._within(each, place, path) for each in source.args)
            return next((loop for loop in inside if loop is not None), None)
        if isinstance(source, ast.Call):
            return self._called(source, place, path)
        if (
            isinstance(source, ast.Attribute)
            and (made := self._attribute(source, place)) is not None
        ):
            return self._within(*made, path)
        if not isinstance(source, ast.Name):
            return None
        definition = find_definition(source.id, place.scope, statement_of(source) or source)
        if definition is not None and definition.kind is Kind.PARAMETER:
            passed = passed_for(definition, source.id, place)
            if passed is None:
                return None
            self._enter(passed[1])
            return self._within(*passed, path)
        if definition is None:
            tree = tree_of(place.filename)
            definition = find_definition(source.id, tree, None) if tree is not None else None
        value = (
            definition.value
            if definition is not None and definition.kind is Kind.ASSIGNED
            else None
        )
        return self._within(value, place, path) if isinstance(value, ast.Call | ast.Name) else None

    def _called(self, node: ast.Call, place: Place, path: tuple[int, ...]) -> Loop | None:
        """Into a function of the program's, a generator, or the `__iter__` of a class of its."""
        for function, filename, names in functions_of(node, place):
            inside = Place(filename, function, names, caller=(node, place))
            self._enter(inside)
            for given in returns_of(function):
                if (loop := self.expression(given, inside, path)) is not None:
                    return loop
        return None

    def _attribute(self, node: ast.Attribute, place: Place) -> tuple[ast.expr, Place] | None:
        """`self.name`: what the class sets it to."""
        owner = class_of_method(place.scope)
        if owner is None or not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return None
        definition = find_attribute(node.attr, owner)
        if definition is None or definition.value is None:
            return None
        setter = enclosing(definition.node, *FUNCTIONS)
        inside = Place(place.filename, setter, place.names) if setter is not None else place
        self._enter(inside)
        return definition.value, inside


def comprehension_of(node: ast.Name) -> ast.comprehension | None:
    """The part of a comprehension around a name that gives it its values."""
    walker: ast.AST | None = node
    while walker is not None and not isinstance(walker, ast.stmt):
        for each in getattr(walker, "generators", ()):
            bound = {part.id for part in ast.walk(each.target) if isinstance(part, ast.Name)}
            if node.id in bound:
                return each if isinstance(each, ast.comprehension) else None
        walker = getattr(walker, "parent", None)
    return None


def passed_for(definition: Definition, name: str, place: Place) -> tuple[ast.expr, Place] | None:
    """What the caller gave for a parameter."""
    function = definition.node
    if not isinstance(function, FunctionNode):
        return None
    call, outside = place.caller or (None, None)
    if call is None and place.outer:
        node, outside = place.outer[0].node(), place_of_site(place.outer)
        call = node if isinstance(node, ast.Call) else None
    if call is None or outside is None:
        return None
    bound = class_of_method(function) is not None and parameter_names(function)[:1] == ["self"]
    argument = argument_for(call, function, name, bound=bound)
    return (argument, outside) if argument is not None else None


def _moves_on(index: ast.AST, place: Place) -> bool:
    """Whether an index is made of a variable that is counted up: `self.at += size`."""
    around = class_of_method(place.scope) or place.scope
    counted = {
        ast.unparse(each.target) for each in ast.walk(around) if isinstance(each, ast.AugAssign)
    }
    return any(
        isinstance(each, ast.expr) and ast.unparse(each) in counted for each in ast.walk(index)
    )


def filled_with(name: str, definition: Definition, scope: ast.AST) -> Iterator[ast.expr]:
    """What is appended to a list that begins empty."""
    if not isinstance(definition.value, ast.List) or definition.value.elts:
        return
    for node in ast.walk(scope):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "append"
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == name
            and node.args
        ):
            yield node.args[0]


def functions_of(
    node: ast.Call, place: Place
) -> Iterator[tuple[FunctionNode, str, dict[str, Any]]]:
    """The functions of the program's that a call leads to."""
    called, thing = node.func, None
    if isinstance(called, ast.Name):
        thing = place.names.get(called.id)
        if inspect.isclass(thing):
            yield from _method(thing, "__iter__")
            return
    elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        owner = class_of_method(place.scope)
        if called.value.id == "self" and owner is not None:
            found = [
                each
                for each in owner.body
                if isinstance(each, ast.FunctionDef) and each.name == called.attr
            ]
            yield from ((each, place.filename, place.names) for each in found)
            return
        kind = _class_of(called.value, place)
        if kind is not None:
            yield from _method(kind, called.attr)
            return
        module = place.names.get(called.value.id)
        thing = getattr(module, called.attr, None) if inspect.ismodule(module) else None
    if inspect.isfunction(thing) and not is_library(thing.__code__.co_filename):
        function = function_node(
            Site(thing.__code__, 0, thing.__code__.co_firstlineno, thing.__globals__)
        )
        if isinstance(function, FunctionNode):
            yield function, thing.__code__.co_filename, thing.__globals__


def _class_of(name: ast.Name, place: Place) -> type | None:
    """The class of the program's that a variable is made of."""
    definition = find_definition(name.id, place.scope, statement_of(name) or name)
    value = definition.value if definition is not None else None
    if definition is not None and definition.kind is Kind.PARAMETER:
        passed = passed_for(definition, name.id, place)
        if passed is None:
            return None
        value, place = passed
        if isinstance(value, ast.Name):
            return _class_of(value, place)
    if definition is None:
        tree = tree_of(place.filename)
        outside = find_definition(name.id, tree, None) if tree is not None else None
        value = outside.value if outside is not None else None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return None
    kind = place.names.get(value.func.id)
    return kind if inspect.isclass(kind) else None


def _method(kind: type, name: str) -> Iterator[tuple[FunctionNode, str, dict[str, Any]]]:
    for each in kind.__mro__:
        node, filename = class_node(each)
        function = vars(each).get(name)
        for method in node.body if node is not None else ():
            if isinstance(method, ast.FunctionDef) and method.name == name:
                yield method, filename, getattr(function, "__globals__", {})
                return
