"""Columns of tables: which one is asked for, where it is put into its table, and what a table has its rows from."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from whence.lineage.following.calling import callers_of
from whence.lineage.following.carriers import value_of
from whence.lineage.grounds import Ground
from whence.lineage.looking import Unknown
from whence.lineage.properties import PICKS_ROWS, called_name
from whence.lineage.tables import is_table, name_of_column
from whence.source.definitions import (
    Definition,
    FunctionNode,
    Kind,
    argument_for,
    class_of_method,
    find_definition,
    own_nodes,
)

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace

FILLS = frozenset({"fillna", "ffill", "bfill", "interpolate", "replace", "clip", "round"})
PLACES = frozenset({"loc", "iloc", "values"})


def column_of(trace: SourceTrace, node: ast.expr, ground: Ground) -> tuple[str, ...]:
    """The name of the column that is asked for, where a table becomes an array whose columns have numbers only."""
    number, many = getattr(trace.prop, "column", None), getattr(trace.prop, "columns", 0)
    if number is None:
        return ()
    names = _names_taken(trace, node, ground)
    if names is not None and len(names) == many:
        return (names[number],)
    try:
        table = value_of(trace, node, ground)
    except Unknown:
        return ()
    if not is_table(table):
        return ()
    name = (
        name_of_column(table, number)
        if number >= 0 and table.shape[1] == many
        else _showing(trace, table)
    )
    return (name,) if name is not None else ()


def _showing(trace: SourceTrace, table: Any) -> str | None:
    """The first column that it shows in, where an array was made of the table that has columns no more: others were made of it."""
    names = (each for each in table.columns if isinstance(each, str))
    return next((each for each in names if trace.prop.of_column(each).holds(table)), None)


def _names_taken(trace: SourceTrace, node: ast.expr, ground: Ground) -> list[str] | None:
    """`table[NAMES]`, `table.loc[rows, NAMES]`."""
    if not isinstance(node, ast.Subscript):
        return None
    taken = (
        node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    )
    names = _known(trace, taken, ground)
    return (
        names if isinstance(names, list) and all(isinstance(each, str) for each in names) else None
    )


def _known(trace: SourceTrace, node: ast.expr, ground: Ground) -> Any:
    """The value of an expression; of a parameter, where nothing is left of its function, that of what its caller passes."""
    with suppress(Unknown):
        return value_of(trace, node, ground)
    function = ground.scope
    if not isinstance(node, ast.Name) or not isinstance(function, FunctionNode):
        return None
    found = find_definition(node.id, function, None)
    if found is None or found.kind is not Kind.PARAMETER:
        return None
    for call, outside in callers_of(trace, function, ground):
        argument = argument_for(
            call, function, node.id, bound=class_of_method(function) is not None
        )
        with suppress(Unknown):
            return value_of(trace, argument, outside) if argument is not None else None
    return None


def table_behind(trace: SourceTrace, node: ast.expr, ground: Ground) -> ast.expr | None:
    """What a table has its columns from, where it is only some rows or some columns of another one, or that one mended."""
    match node:
        case ast.Call(func=ast.Attribute(value=table, attr=name)) if name in PICKS_ROWS | FILLS | {
            "assign"
        }:
            return table
        case ast.Attribute(value=table, attr=name) if name in PLACES:
            return table
        case ast.Subscript(value=table) if _names_taken(
            trace, node, ground
        ) is not None or _picks_rows(node, ground):
            return table
    return None


def _picks_rows(node: ast.Subscript, ground: Ground) -> bool:
    """`table[table.day < 9]`, `table[~late]`, `table[:90]`, `table.loc[rows]`; not `records[i]`."""
    if isinstance(node.value, ast.Attribute) and node.value.attr in PLACES:
        return True
    match node.slice:
        case (
            ast.Slice()
            | ast.Compare()
            | ast.BoolOp()
            | ast.BinOp(op=ast.BitAnd() | ast.BitOr())
            | ast.UnaryOp(op=ast.Invert())
        ):
            return True
        case ast.Name(id=name):
            made = find_definition(name, ground.scope, node)
            return (
                made is not None
                and made.kind is Kind.ASSIGNED
                and not isinstance(made.value, ast.Constant)
            )
    return False


def column_put(
    trace: SourceTrace,
    table: str,
    column: Any,
    ground: Ground,
    *,
    since: Definition | None,
    before: ast.AST,
) -> Definition | None:
    """`table["column"] = value`, the last one before a statement; else one that puts this column and others there in turn."""
    first = since.node if since is not None and since.kind is not Kind.PARAMETER else None
    found = [
        node
        for node in own_nodes(ground.scope)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Subscript)
        and ast.unparse(node.targets[0].value) in (table, f"{table}.loc")
        and (getattr(first, "lineno", 0) < node.lineno < getattr(before, "lineno", 0))
    ]
    for asked in (_is_named, _is_among, _is_like):
        for node in reversed(found):
            if asked(trace, node.targets[0].slice, column, ground):  # type: ignore[attr-defined]
                return Definition(Kind.ASSIGNED, node, node.value)
    return None


def _is_named(_trace: SourceTrace, key: ast.expr, column: Any, _ground: Ground) -> bool:
    name = key.elts[-1] if isinstance(key, ast.Tuple) and key.elts else key
    return isinstance(name, ast.Constant) and name.value == column


def _is_among(trace: SourceTrace, key: ast.expr, column: Any, ground: Ground) -> bool:
    """`table[NAMES]`, or `table[name]` in a loop over names."""
    turns = find_definition(key.id, ground.scope, key) if isinstance(key, ast.Name) else None
    names = turns.value if turns is not None and turns.kind is Kind.LOOP and not turns.path else key
    try:
        known = value_of(trace, names, ground) if names is not None else ()
    except Unknown:
        return False
    return isinstance(known, list | tuple) and column in known


def _is_like(_trace: SourceTrace, key: ast.expr, column: Any, _ground: Ground) -> bool:
    """`table[name + "_scaled"]`, `table[f"log_{name}"]`: a name with parts that are written out, and are this one's."""
    parts = _written_in(key)
    pattern = "".join(".+" if each is None else re.escape(each) for each in parts)
    return any(parts) and isinstance(column, str) and re.fullmatch(pattern, column) is not None


def _written_in(key: ast.expr) -> list[str | None]:
    """The parts of a text; None for one that is computed."""
    match key:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return [*_written_in(left), *_written_in(right)]
        case ast.JoinedStr(values=values):
            return [part for each in values for part in _written_in(each)]
    return [None]


def column_given(node: ast.expr, column: Any) -> ast.expr | None:
    """What stands for a column where a table is made, or gets further ones: `DataFrame({"a": x})`, `table.assign(a=x)`."""
    if not isinstance(node, ast.Call):
        return None
    if called_name(node) == "DataFrame" and node.args and isinstance(node.args[0], ast.Dict):
        given = node.args[0]
        named = zip(given.keys, given.values, strict=True)
        return next(
            (
                value
                for key, value in named
                if isinstance(key, ast.Constant) and key.value == column
            ),
            None,
        )
    if called_name(node) == "assign":
        value = next((each.value for each in node.keywords if each.arg == column), None)
        return value.body if isinstance(value, ast.Lambda) else value
    return None


def lacks_column(node: ast.expr, column: Any) -> bool:
    """Whether a table is made of columns that are all written out, and this one is not among them."""
    given = (
        node.args[0]
        if isinstance(node, ast.Call) and called_name(node) == "DataFrame" and node.args
        else None
    )
    if not isinstance(given, ast.Dict) or not isinstance(column, str):
        return False
    return all(isinstance(each, ast.Constant) and each.value != column for each in given.keys)
