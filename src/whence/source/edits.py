"""Small edits of the user's source, told as a unified diff. Nothing is written to the user's files."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

from whence.finding import Span
from whence.source.text import lines_of, shown_path, span_of, text_of, tree_of


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of one span by another."""

    filename: str
    span: Span
    text: str


def replace_node(filename: str, node: ast.AST, text: str) -> Edit:
    return Edit(filename, span_of(node), text)


def insert_after(filename: str, node: ast.AST, text: str) -> Edit:
    span = span_of(node)
    return Edit(filename, Span(span.end_line, span.end_column, span.end_line, span.end_column), text)


def insert_before(filename: str, node: ast.AST, text: str) -> Edit:
    span = span_of(node)
    return Edit(filename, Span(span.line, span.column, span.line, span.column), text)


def give_by_name(filename: str, node: ast.Call, name: str, text: str) -> Edit | None:
    """Give a call an argument by its name: for the one that it has, or behind all others."""
    named = next((each for each in node.keywords if each.arg == name), None)
    if named is not None:
        return replace_node(filename, named.value, text)
    given = [*node.args, *(each.value for each in node.keywords)]
    return insert_after(filename, given[-1], f", {name}={text}") if given else None


def line_before(filename: str, statement: ast.stmt, text: str) -> Edit:
    return insert_before(filename, statement, f"{text}\n{' ' * statement.col_offset}")


def line_after(filename: str, statement: ast.stmt, text: str) -> Edit:
    """Behind all of its text, comments included."""
    assert statement.end_lineno is not None
    at = Span(statement.end_lineno + 1, 0, statement.end_lineno + 1, 0)
    return Edit(filename, at, f"{' ' * statement.col_offset}{text}\n")


def move_after(filename: str, statement: ast.stmt, other: ast.stmt) -> tuple[Edit, Edit]:
    return remove_statement(filename, statement), line_after(filename, other, text_of(filename, statement))


def move_before(filename: str, statement: ast.stmt, other: ast.stmt) -> tuple[Edit, Edit]:
    """Take a statement away, and put it in front of another one."""
    return remove_statement(filename, statement), line_before(filename, other, text_of(filename, statement))


def import_of(filename: str, module: str) -> tuple[Edit | None, ...]:
    """What a file needs to know a module by its own name: nothing, where it does; None where there is no place for it."""
    tree = tree_of(filename)
    known = [each for each in (tree.body if tree is not None else ()) if isinstance(each, ast.Import | ast.ImportFrom)]
    plain = [name for each in known if isinstance(each, ast.Import) for name in each.names]
    if any(each.name == module and each.asname is None for each in plain):
        return ()
    first = next((each for each in known if isinstance(each, ast.Import) or each.module != "__future__"), None)
    return (line_before(filename, first, f"import {module}") if first is not None else None,)


def remove_statement(filename: str, node: ast.stmt) -> Edit:
    """Take a statement away, its lines included. Where it is the only one of its block there is no such edit: the rest would not parse."""
    assert node.end_lineno is not None
    return Edit(filename, Span(node.lineno, 0, node.end_lineno + 1, 0), "")


def in_parentheses(filename: str, node: ast.expr) -> str:
    """The text of an expression, in parentheses if something is to be called on it and it would bind less tightly."""
    text = text_of(filename, node)
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({text})"


def _offset(lines: list[bytes], line: int, column: int) -> int:
    return sum(len(each) + 1 for each in lines[: line - 1]) + column


def diff_of(*given: Edit | None) -> str | None:
    """A unified diff of all edits (in one file), or None if there is none, or the result would no longer parse."""
    edits = [each for each in given if each is not None]
    if not edits or len(edits) < len(given):
        return None
    filename = edits[0].filename
    before = [line.encode() for line in lines_of(filename)]
    if not before or any(edit.filename != filename for edit in edits):
        return None
    text = b"\n".join(before)
    for edit in sorted(edits, key=lambda each: (each.span.line, each.span.column), reverse=True):
        start = _offset(before, edit.span.line, edit.span.column)
        end = _offset(before, edit.span.end_line, edit.span.end_column)
        text = text[:start] + edit.text.encode() + text[end:]
    after = text.decode(errors="replace")
    try:
        ast.parse(after)
    except SyntaxError:
        return None
    path = shown_path(filename)
    old = [line + "\n" for line in lines_of(filename)]
    new = [line + "\n" for line in after.split("\n")]
    return "".join(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", n=2)) or None
