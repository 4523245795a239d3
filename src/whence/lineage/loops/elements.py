"""From a list of samples that are stacked back to the expression that gives each of them its size.

Read from the source alone: over names, comprehensions, slices of the list, loops and lists that are filled.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from whence.lineage.loops.feeding import (
    Place,
    comprehension_of,
    filled_with,
    functions_of,
    passed_for,
)
from whence.lineage.properties import KEEPS_SHAPE
from whence.source.definitions import (
    Kind,
    class_of_method,
    find_attribute,
    find_definition,
    returns_of,
)
from whence.source.spots import Spot
from whence.source.text import enclosing, last_name, statement_of, tree_of

DEEPEST = 40
SEQUENCES = ("list", "tuple", "sorted", "reversed", "iter")


@dataclass(slots=True)
class ElementTrace:
    """One search. `depth` is how many loops stand between an expression and one sample: 1 for the list of them."""

    _seen: int = field(default=0)

    def sample(
        self, node: ast.expr, place: Place, depth: int, path: tuple[int, ...] = ()
    ) -> Spot | None:
        """Where a sample gets its size: the nearest expression that does more than pass it on."""
        self._seen += 1
        if self._seen > DEEPEST:
            return None
        if isinstance(node, ast.Name):
            return self._name(node, place, depth, path)
        if isinstance(node, ast.Attribute) and (made := _set_to(node, place)) is not None:
            return self.sample(*made, depth, path)
        if depth == 0:
            return self._one(node, place, path)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self.sample(node.elt, place, depth - 1, path)
        if isinstance(node, ast.Subscript):
            # A part of the list, or of a list of lists.
            return self.sample(
                node.value, place, depth if isinstance(node.slice, ast.Slice) else depth + 1, path
            )
        if isinstance(node, ast.Call) and last_name(node.func) in SEQUENCES and node.args:
            return self.sample(node.args[0], place, depth, path)
        if isinstance(node, ast.List) and node.elts:
            return self.sample(node.elts[0], place, depth - 1, path)
        return self._returned(node, place, depth, path) if isinstance(node, ast.Call) else None

    def _returned(
        self, node: ast.Call, place: Place, depth: int, path: tuple[int, ...]
    ) -> Spot | None:
        """A function of the program's: what it returns."""
        for function, filename, names in functions_of(node, place):
            given = returns_of(function)
            if len(given) == 1:
                return self.sample(
                    given[0], Place(filename, function, names, caller=(node, place)), depth, path
                )
        return None

    def _one(self, node: ast.expr, place: Place, path: tuple[int, ...]) -> Spot | None:
        if isinstance(node, ast.Tuple | ast.List) and path and path[0] < len(node.elts):
            return self.sample(node.elts[path[0]], place, 0, path[1:])
        if path:
            return None
        if isinstance(node, ast.Call) and last_name(node.func) in KEEPS_SHAPE:
            receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
            inner = (
                receiver
                if receiver is not None and not _is_module(receiver, place)
                else next(iter(node.args), None)
            )
            return (self.sample(inner, place, 0) if inner is not None else None) or self._here(
                node, place
            )
        inside = self._returned(node, place, 0, path) if isinstance(node, ast.Call) else None
        return inside or self._here(node, place)

    def _here(self, node: ast.expr, place: Place) -> Spot:
        return Spot.of_node(place.filename, node)

    def _name(self, node: ast.Name, place: Place, depth: int, path: tuple[int, ...]) -> Spot | None:
        around = comprehension_of(node)
        if around is not None:
            return self.sample(
                around.iter, place, depth + 1, (*_path_in(around.target, node.id), *path)
            )
        definition = find_definition(node.id, place.scope, statement_of(node) or node)
        tree = tree_of(place.filename)
        if definition is None and tree is not None:
            definition = find_definition(node.id, tree, None)
        if definition is None:
            return None
        if definition.kind is Kind.PARAMETER:
            passed = passed_for(definition, node.id, place)
            return self.sample(*passed, depth, path) if passed is not None else None
        if definition.value is None:
            return None
        if definition.kind is Kind.LOOP:
            return self.sample(definition.value, place, depth + 1, (*definition.path, *path))
        for given in filled_with(node.id, definition, place.scope):
            return self.sample(given, place, depth - 1, path) if depth else None
        if definition.path:
            # A part of something that is unpacked: what it is, that says.
            return self._here(definition.value, place) if depth == 0 else None
        return self.sample(definition.value, place, depth, path)


def _set_to(node: ast.Attribute, place: Place) -> tuple[ast.expr, Place] | None:
    """`self.name`: what the class sets it to, with the one place that makes an object of the class."""
    owner = class_of_method(place.scope)
    if owner is None or not (isinstance(node.value, ast.Name) and node.value.id == "self"):
        return None
    definition = find_attribute(node.attr, owner)
    setter = enclosing(definition.node, ast.FunctionDef) if definition is not None else None
    if definition is None or definition.value is None or definition.path or setter is None:
        return None
    tree = tree_of(place.filename)
    makers = [
        each
        for each in (ast.walk(tree) if tree is not None else ())
        if isinstance(each, ast.Call) and last_name(each.func) == owner.name
    ]
    around = (
        enclosing(makers[0], ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
        if len(makers) == 1
        else None
    )
    caller = (makers[0], Place(place.filename, around, place.names)) if around is not None else None
    return definition.value, Place(place.filename, setter, place.names, caller=caller)


def _path_in(target: ast.expr, name: str) -> tuple[int, ...]:
    """Where a name stands in the target of a loop: `for i, (x, y) in ...` has y at (1, 1)."""
    for number, each in enumerate(target.elts if isinstance(target, ast.Tuple | ast.List) else ()):
        if isinstance(each, ast.Name) and each.id == name:
            return (number,)
        if below := _path_in(each, name):
            return (number, *below)
    return ()


def _is_module(node: ast.expr, place: Place) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and type(place.names.get(node.id)).__name__ == "module"
