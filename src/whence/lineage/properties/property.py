"""What a property must say of itself to be followed back."""

from __future__ import annotations

import ast
from typing import Any, ClassVar

from whence.tape.tape import Call, Value


class Property:
    """What a property must say of itself; what it does not say has these answers."""

    __slots__ = ()
    singles_out: ClassVar[bool] = False
    """Whether it tells one sample of a batch from the others."""
    shows_in_lines: ClassVar[bool] = False
    """Whether a variable shows it, so that a sample can be made again with an eye on every line."""
    outlives_files: ClassVar[bool] = False
    """Whether it is to be followed through a file, from what reads it to what writes it in the same program."""
    of_the_whole: ClassVar[bool] = False
    """Whether things that are put together get it together: no part that stands in the list itself is its birth."""

    shows_together: ClassVar[bool] = False
    """Whether it is one of many numbers together, so that what changes some of them may have made it."""

    def carrier(self, call: Call, value: Value) -> tuple[Value, Property] | None:
        """The operand from which the call's result has the property, or None if it was born in this call."""
        raise NotImplementedError

    def holds(self, _thing: Any) -> bool | None:
        """Whether an object outside torch has the property; None where that cannot be known."""
        return None

    def is_set_by(self, _node: ast.expr) -> bool:
        """Whether an expression decides the property by itself, whatever goes into it."""
        return False

    def is_born_in(self, _node: ast.AST) -> bool:
        """Whether an expression is its birth for certain, by its syntax alone."""
        return False

    def contradicts(self, _node: ast.expr) -> bool:
        """Whether what the expression makes cannot have the property, by its syntax alone."""
        return False

    def of_column(self, _name: str) -> Property:
        """The same, of one column of each table that has it."""
        return self

    def places_in(self, _thing: Any) -> tuple[int, ...]:
        """The elements of an array that have it, counted in a row, where it is one of elements."""
        return ()

    def at_places(self, _places: tuple[int, ...], _shape: tuple[int, ...]) -> Property:
        """The same, of some elements of each array of that shape."""
        return self

    def describe(self) -> str:
        raise NotImplementedError


def called_name(node: ast.expr) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def before_change(call: Call, value: Value) -> Value | None:
    """What a value was before this call changed it in place: shape, type and device stay as they were."""
    if value not in call.outputs or not call.changed:
        return None
    number = call.outputs.index(value)
    return call.changed[number] if number < len(call.changed) else None
