"""Small edits of the user's source, told as a unified diff. Nothing is written to the user's files."""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass

from whence.finding import Span
from whence.source.text import lines_of, shown_path, span_of, text_of


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


def in_parentheses(filename: str, node: ast.expr) -> str:
    """The text of an expression, in parentheses if something is to be called on it and it would bind less tightly."""
    text = text_of(filename, node)
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({text})"


def _offset(lines: list[bytes], line: int, column: int) -> int:
    return sum(len(each) + 1 for each in lines[: line - 1]) + column


def diff_of(*edits: Edit) -> str | None:
    """A unified diff of all edits (in one file), or None if the result would no longer parse."""
    if not edits:
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
