"""What an expression does to the order of a sequence, or to which of its elements are there."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum, auto

from whence.lineage.loops.nodes import DEEPEST, is_module, module_of
from whence.source.definitions import Kind, find_definition
from whence.source.text import enclosing, last_name, statement_of

CONVERTING = {"from_numpy", "tensor", "as_tensor", "array", "asarray", "list", "tuple", "stack", "FloatTensor", "LongTensor",
              "Tensor", "ascontiguousarray", "deepcopy", "copy"}  # fmt: skip
CONVERTING_METHODS = {"float", "long", "int", "double", "astype", "to", "copy", "clone", "numpy", "tolist", "unsqueeze",
                      "contiguous", "type", "to_numpy"}  # fmt: skip
DRAWING = {"randperm", "permutation", "sample"}
SORTING = {"argsort", "lexsort"}
DROPPING = {"dropna", "drop_duplicates"}
PICKING = {"flatnonzero", "nonzero", "argwhere", "where"}


class Manner(Enum):
    RANDOM = auto()
    SORTED = auto()
    FILTERED = auto()


@dataclass(frozen=True, slots=True)
class Change:
    """A statement that puts a sequence in another order, or leaves some of it out."""

    manner: Manner
    by: str
    """What decides the order, as it is written, with the sequence's own name left out."""
    node: ast.AST
    drawn: ast.AST | None = None
    """Where the permutation comes from, if it has a name."""


def converted(node: ast.expr) -> ast.expr | None:
    """What a conversion converts."""
    if not isinstance(node, ast.Call):
        return None
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in CONVERTING_METHODS
        and not is_module(node.func.value)
    ):
        return node.func.value
    if last_name(node.func) in CONVERTING and node.args:
        return node.args[0]
    return None


def unconverted(node: ast.expr) -> ast.expr:
    inner = converted(node)
    return unconverted(inner) if inner is not None else node


def changed_by_call(node: ast.Call) -> tuple[Change, ast.expr] | None:
    name = last_name(node.func)
    if name in ("sorted", "reversed") and node.args and isinstance(node.func, ast.Name):
        return Change(Manner.SORTED, name, node), node.args[0]
    if (
        name == "sort"
        and node.args
        and isinstance(node.func, ast.Attribute)
        and is_module(node.func.value)
    ):
        return Change(Manner.SORTED, name, node), node.args[0]
    if name in ("permutation", "sample") and node.args and isinstance(node.args[0], ast.Name):
        return Change(Manner.RANDOM, ast.unparse(node.func), node), node.args[0]
    if (
        name == "sample"
        and isinstance(node.func, ast.Attribute)
        and any(each.arg == "frac" for each in node.keywords)
    ):
        return Change(Manner.RANDOM, name, node), node.func.value
    if name == "filter" and len(node.args) == 2 and isinstance(node.func, ast.Name):
        return Change(Manner.FILTERED, ast.unparse(node.args[0]), node), node.args[1]
    if name in DROPPING and isinstance(node.func, ast.Attribute) and not _drops_columns(node):
        return Change(Manner.FILTERED, name, node), node.func.value
    return None


def _drops_columns(call: ast.Call) -> bool:
    return any(
        each.arg == "axis" and ast.unparse(each.value) not in ("0", "'index'", "'rows'")
        for each in call.keywords
    )


def is_columns(index: ast.expr) -> bool:
    """`frame[["height", "weight"]]`, `frame["height"]`, `frame[COLUMNS]`: all rows, and some columns."""
    if isinstance(index, ast.Name):
        scopes = (enclosing(index, ast.FunctionDef, ast.Module), module_of(index))
        made = next(
            (
                each
                for scope in scopes
                if scope and (each := find_definition(index.id, scope, None))
            ),
            None,
        )
        return (
            made is not None
            and isinstance(made.value, ast.List)
            and not made.path
            and is_columns(made.value)
        )
    names = index.elts if isinstance(index, ast.List) else [index]
    return bool(names) and all(
        isinstance(each, ast.Constant) and isinstance(each.value, str) for each in names
    )


def taken_one_by_one(node: ast.expr) -> ast.Subscript | None:
    """`[things[each] for each in order]` is `things[order]`."""
    match node:
        case ast.ListComp(
            elt=ast.Subscript(value=things, slice=ast.Name(id=taken)),
            generators=[ast.comprehension(target=ast.Name(id=each), iter=order, ifs=[])],
        ) if taken == each and not isinstance(order, ast.Call):
            return ast.copy_location(ast.Subscript(things, order, ast.Load()), node)
    return None


def is_cut(index: ast.expr) -> bool:
    """A stretch of the sequence, or all of it and a part of each element."""
    if isinstance(index, ast.Tuple):
        return bool(index.elts) and (is_cut(index.elts[0]) or _is_ellipsis(index.elts[0]))
    return isinstance(index, ast.Slice) and index.step is None


def length_in(index: ast.expr) -> str:
    """`[: len(inputs)]`: what is made as long as the inputs goes with them."""
    match index:
        case ast.Slice(lower=None, upper=ast.Call(func=ast.Name(id="len"), args=[counted])):
            return ast.unparse(counted)
        case ast.Slice(
            lower=None, upper=ast.Subscript(value=ast.Attribute(value=counted, attr="shape"))
        ):
            return ast.unparse(counted)
    return ""


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def indexed(node: ast.Subscript, scope: ast.AST) -> Change | None:
    """A sequence that is taken in the order of a permutation, or by a mask."""
    by: ast.expr | None = node.slice
    drawn: ast.AST | None = None
    for _ in range(DEEPEST):
        if isinstance(by, ast.Subscript) and is_cut(by.slice):
            by = by.value
        elif isinstance(by, ast.Name):
            definition = find_definition(by.id, scope, statement_of(by) or by)
            if definition is None or definition.path or definition.kind is not Kind.ASSIGNED:
                return None
            drawn, by = definition.node, definition.value
        else:
            break
    manner = _manner_of(by) if by is not None else None
    if manner is None:
        return None
    return Change(manner, ast.unparse(node.slice), node, drawn)


def _manner_of(index: ast.expr) -> Manner | None:
    if isinstance(index, ast.Call):
        name = last_name(index.func)
        if name in DRAWING:
            return Manner.RANDOM
        if name in SORTING:
            return Manner.SORTED
        if isinstance(index.func, ast.Attribute) and name in ("tolist", "numpy", "long", "copy"):
            return _manner_of(index.func.value)
        if name in PICKING and len(index.args) < 2:
            # With three arguments `where` gives no places, but values.
            return Manner.FILTERED
    match index:
        case ast.Compare() | ast.UnaryOp(op=ast.Invert()):
            return Manner.FILTERED
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return _manner_of(left) or _manner_of(right)
        case ast.ListComp(generators=[ast.comprehension(ifs=[_, *_])]):
            return Manner.FILTERED
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant()):
            return _manner_of(call)
    return None
