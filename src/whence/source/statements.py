"""Edits of whole statements: insert, remove, move, indent; they keep the file's indentation.

There is no such edit if a statement shares its line with another one (`for x in y: f(x)`, `f();
g()`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from whence.finding import Span
from whence.source.definitions import name_in
from whence.source.edits import Edit
from whence.source.text import line_of, lines_of, parent_of, tree_of

ALONE = "    "


def line_before(filename: str, statement: ast.stmt, *texts: str) -> Edit | None:
    """Insert lines before a statement."""
    indent = indentation(filename, statement)
    if indent is None:
        return None
    first = _first_line(statement)
    return Edit(filename, Span(first, 0, first, 0), "".join(f"{indent}{text}\n" for text in texts))


def line_after(filename: str, statement: ast.stmt, *texts: str) -> Edit | None:
    """Insert lines after a whole statement and its trailing comment."""
    indent = indentation(filename, statement)
    if indent is None or not _ends_its_line(filename, statement):
        return None
    behind = _last_line(statement) + 1
    return Edit(
        filename, Span(behind, 0, behind, 0), "".join(f"{indent}{text}\n" for text in texts)
    )


def remove_statement(filename: str, statement: ast.stmt) -> Edit | None:
    """Remove a statement with its lines.

    There is no such edit for the only statement of a block: the rest would not parse.
    """
    if indentation(filename, statement) is None or not _ends_its_line(filename, statement):
        return None
    return Edit(filename, Span(_first_line(statement), 0, _last_line(statement) + 1, 0), "")


def move_after(
    filename: str, statement: ast.stmt, other: ast.stmt
) -> tuple[Edit | None, Edit | None]:
    """Move a statement after another one."""
    place = line_after(filename, other, "")
    return remove_statement(filename, statement), _put(filename, statement, other, place)


def move_before(
    filename: str, statement: ast.stmt, other: ast.stmt
) -> tuple[Edit | None, Edit | None]:
    place = line_before(filename, other, "")
    return remove_statement(filename, statement), _put(filename, statement, other, place)


def _put(filename: str, statement: ast.stmt, other: ast.stmt, place: Edit | None) -> Edit | None:
    lines = _moved_lines(filename, [statement], indentation(filename, other) or "")
    return (
        replace(place, text="".join(f"{line}\n" for line in lines))
        if place is not None and lines
        else None
    )


def wrap(filename: str, statements: Sequence[ast.stmt], head: str) -> Edit | None:
    """Put statements of one block below a header such as `with torch.no_grad():`."""
    first, last = statements[0], statements[-1]
    indent = indentation(filename, first)
    if indent is None or not _ends_its_line(filename, last):
        return None
    lines = _moved_lines(filename, statements, indent + _unit(filename, first))
    text = (
        "".join(f"{line}\n" for line in (f"{indent}{head}", *lines)) if lines is not None else None
    )
    return (
        Edit(filename, Span(_first_line(first), 0, _last_line(last) + 1, 0), text)
        if text is not None
        else None
    )


def decorate(filename: str, function: ast.FunctionDef, decorator: str) -> Edit | None:
    """Add a decorator to a function that has none."""
    return None if function.decorator_list else line_before(filename, function, f"@{decorator}")


def import_of(filename: str, module: str) -> tuple[Edit | None, ...]:
    """Return the edits that import a module by its own name, if the file does not already.

    An edit is None if there is no place for it.
    """
    tree = tree_of(filename)
    known = [
        each
        for each in (tree.body if tree is not None else ())
        if isinstance(each, ast.Import | ast.ImportFrom)
    ]
    plain = [name for each in known if isinstance(each, ast.Import) for name in each.names]
    if any(each.name == module and each.asname is None for each in plain):
        return ()
    first = next(
        (each for each in known if isinstance(each, ast.Import) or each.module != "__future__"),
        None,
    )
    return (line_before(filename, first, f"import {module}") if first is not None else None,)


def reached(filename: str, module: str, attribute: str) -> tuple[str, tuple[Edit | None, ...]]:
    """Return how a file writes a module's attribute, and the import that it needs for that."""
    name = name_in(filename, module, attribute)
    return (
        (name, ()) if name is not None else (f"{module}.{attribute}", import_of(filename, module))
    )


def indentation(filename: str, statement: ast.stmt) -> str | None:
    """Return the white space before a statement, or None if other text is before it."""
    line = line_of(filename, _first_line(statement))
    start = line.encode()[: statement.col_offset].decode(errors="replace")
    return start if not start.strip() else None


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _last_line(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _ends_its_line(filename: str, statement: ast.stmt) -> bool:
    """Return whether only a comment follows a statement on its line."""
    rest = (
        line_of(filename, _last_line(statement))
        .encode()[statement.end_col_offset :]
        .decode(errors="replace")
        .strip()
    )
    return not rest or rest.startswith("#")


def _moved_lines(filename: str, statements: Sequence[ast.stmt], indent: str) -> list[str] | None:
    """Return the lines of a block, with its comments, at another indentation.

    Multi-line strings are not changed.
    """
    own = indentation(filename, statements[0])
    first, last = _first_line(statements[0]), _last_line(statements[-1])
    within = {line for each in statements for line in _lines_in_texts(each)}
    found: list[str] = []
    for number, line in enumerate(lines_of(filename)[first - 1 : last], first):
        if number in within or not line.strip():
            found.append(line)
        elif own is None or not line.startswith(own):
            # A comment or a closing bracket that is indented less.
            return None
        else:
            found.append(indent + line.removeprefix(own))
    return found


def _lines_in_texts(statement: ast.stmt) -> Iterator[int]:
    for node in ast.walk(statement):
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        ):
            yield from range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)


def _unit(filename: str, statement: ast.stmt) -> str:
    """Return the file's indentation unit, from the block below a statement or the one around it."""
    own = indentation(filename, statement) or ""
    below = getattr(statement, "body", ())
    inner = indentation(filename, below[0]) if below else None
    if inner is not None and inner.startswith(own) and inner != own:
        return inner.removeprefix(own)
    above = parent_of(statement)
    outer = indentation(filename, above) if isinstance(above, ast.stmt) else None
    return (
        own.removeprefix(outer)
        if outer is not None and own.startswith(outer) and own != outer
        else ALONE
    )
