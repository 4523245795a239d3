"""A whole number that a narrower type made of another one: 40000 is -25536 in 16 bits. It is born where it is put into that type."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from whence.lineage.properties import PASSES_VALUES, HasElement, called_name, named_dtype
from whence.source.definitions import FunctionNode, default_for, find_definition
from whence.source.files import program_files
from whence.source.text import parent_of, tree_of

WORDS = {"short": "int16", "char": "int8", "intc": "int32"}
LETTERS = {"b": "int8", "h": "int16"}
WIDTHS = (8, 16, 32)
# Made with a type as the second argument.
MAKERS = frozenset({"array", "asarray", "zeros", "ones", "empty", "fromiter", "ascontiguousarray"})
# What data have for "none": there is no telling whether it was meant.
NONE = frozenset({-1, -2, -9, -99, -100, -999, -9999})
PASSES = PASSES_VALUES | {"tolist", "item", "int", "flatten", "numpy", "get", "values", "load"}


@dataclass(frozen=True, slots=True)
class Wrapped(HasElement):
    """One element is `value`, beyond the `size` of what it is to index, and would be within it but for a type that has not enough bits."""

    outlives_files: ClassVar[bool] = True
    size: int = 0

    def is_born_in(self, node: ast.AST) -> bool:
        return self.original(node) is not None

    def is_set_by(self, node: ast.expr) -> bool:
        if self.is_born_in(node):
            return True
        return isinstance(node, ast.BinOp) or (
            isinstance(node, ast.Call) and called_name(node) not in PASSES
        )

    def original(self, node: ast.AST) -> int | None:
        """What the number was before an expression put it into a type, if that is how it came about."""
        bits = _bits(node) if isinstance(node, ast.Call) else None
        return (
            int(self.value) + (1 << bits)
            if bits is not None and _fits(int(self.value), bits, self.size)
            else None
        )


def may_be_wrapped(value: int, size: int) -> bool:
    """Whether there is a type that would make such a number of one that is within range, and nobody means something by it."""
    return (
        any(_fits(value, bits, size) for bits in WIDTHS)
        and value not in NONE
        and not _is_written_out(value)
    )


def casts_of_program() -> Iterator[tuple[str, ast.Call]]:
    """The calls that put numbers into a type of few bits, each with its file."""
    for filename in program_files():
        tree = tree_of(filename)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Call) and _bits(node) is not None:
                yield filename, node


def _is_written_out(value: int) -> bool:
    """Whether the program has this number in its source: `labels[unsure] = -2`."""
    trees = (tree_of(filename) for filename in program_files())
    return any(
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and getattr(node.operand, "value", 0) == -value
        for tree in trees
        if tree is not None
        for node in ast.walk(tree)
    )


def _fits(value: int, bits: int, size: int) -> bool:
    lowest, lost = -(1 << (bits - 1)), 1 << bits
    return lowest <= value < 0 and value + lost < size


def narrow_type(node: ast.Call) -> str:
    return f"int{_bits(node) or 64}"


def _bits(node: ast.Call) -> int | None:
    """How many bits the type has that a call names: of whole numbers with a sign, below 64 bits."""
    name = named_dtype(node) or _type_in(_type_argument(node))
    name = WORDS.get(name or "", name or "")
    found = re.fullmatch(r"[<>=|]?i(nt)?(\d+)", name)
    if found is None:
        return None
    # `i2` is two bytes, `int16` sixteen bits.
    bits = int(found[2]) * (1 if found[1] else 8)
    return bits if bits in WIDTHS else None


def _type_argument(node: ast.Call) -> ast.expr | None:
    named = next((each.value for each in node.keywords if each.arg == "dtype"), None)
    if named is not None:
        return named
    place = (
        0
        if called_name(node) in ("astype", "to", "type")
        else 1
        if called_name(node) in MAKERS
        else len(node.args)
    )
    return node.args[place] if place < len(node.args) else None


def _type_in(node: ast.expr | None) -> str | None:
    """`np.int16`, `"i2"`, or a name for it: a constant of the file, or the default of a parameter."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant):
        return LETTERS.get(str(node.value), str(node.value))
    walker: ast.AST | None = node
    while isinstance(node, ast.Name) and walker is not None:
        walker = parent_of(walker)
        if isinstance(walker, FunctionNode | ast.Module) and (
            known := find_definition(node.id, walker, None)
        ):
            given = known.value or (
                default_for(walker, node.id) if isinstance(walker, FunctionNode) else None
            )
            return _type_in(given) if not isinstance(given, ast.Name) else None
    return None
