"""Small edits of the user's source, shown as a unified diff; no user file is written."""

from __future__ import annotations

import ast
import difflib
from dataclasses import astuple, dataclass

from whence.finding import Span
from whence.source.text import (
    end_of_lines,
    has_last_end,
    line_of,
    lines_of,
    shown_path,
    span_of,
    text_of,
)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replacement of the text of one span."""

    filename: str
    span: Span
    text: str


def replace_node(filename: str, node: ast.AST, text: str) -> Edit:
    return Edit(filename, span_of(node), text)


def insert_after(filename: str, node: ast.AST, text: str) -> Edit:
    span = span_of(node)
    return Edit(
        filename, Span(span.end_line, span.end_column, span.end_line, span.end_column), text
    )


def insert_before(filename: str, node: ast.AST, text: str) -> Edit:
    span = span_of(node)
    return Edit(filename, Span(span.line, span.column, span.line, span.column), text)


def give_by_name(filename: str, node: ast.Call, name: str, text: str) -> Edit | None:
    """Set a keyword argument of a call: replace its value, or append it after all others."""
    named = next((each for each in node.keywords if each.arg == name), None)
    if named is not None:
        return replace_node(filename, named.value, text)
    given = [*node.args, *node.keywords]
    if not given:
        return None
    last = span_of(given[-1])
    before = line_of(filename, last.line).encode()[: last.column].decode(errors="replace")
    # One argument per line, or all on one line.
    gap = f",\n{before}" if not before.strip() else ", "
    return insert_after(filename, given[-1], f"{gap}{name}={text}")


def in_parentheses(filename: str, node: ast.expr) -> str:
    """Return the text of an expression, in parentheses if a call on it would bind more tightly."""
    text = text_of(filename, node)
    return (
        text
        if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        else f"({text})"
    )


def diff_of(*given: Edit | None) -> str | None:
    """Return a unified diff of all edits of one file.

    None if there are no edits, or if the result would no longer parse.
    """
    edits = [each for each in given if each is not None]
    if not edits or len(edits) < len(given):
        return None
    filename = edits[0].filename
    before = [f"{line}\n".encode() for line in lines_of(filename)]
    end = end_of_lines(filename)
    if not before or end is None or any(edit.filename != filename for edit in edits):
        return None
    after = _edited(before, edits).decode(errors="replace")
    try:
        ast.parse(after)
    except SyntaxError:
        return None
    path = shown_path(filename)
    old, new = (
        [f"{line}\n" for line in text.split("\n")[:-1]]
        for text in (b"".join(before).decode(), after)
    )
    if not has_last_end(filename):
        old[-1], new[-1] = old[-1][:-1], new[-1][:-1]
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", n=2)
    return "".join(_as_in_the_file(line, end) for line in lines) or None


def diffs_of(*given: Edit | None) -> str | None:
    """Return the diffs of edits in several files."""
    edits = [each for each in given if each is not None]
    files = dict.fromkeys(each.filename for each in edits)
    diffs = [diff_of(*(each for each in edits if each.filename == filename)) for filename in files]
    found = [each for each in diffs if each is not None]
    return (
        "".join(found) if found and len(found) == len(diffs) and len(edits) == len(given) else None
    )


def _edited(before: list[bytes], edits: list[Edit]) -> bytes:
    text = b"".join(before)
    # From the end backwards, and deletions before insertions at the same place.
    for edit in sorted(edits, key=lambda each: astuple(each.span), reverse=True):
        start = _offset(before, edit.span.line, edit.span.column)
        end = _offset(before, edit.span.end_line, edit.span.end_column)
        text = text[:start] + edit.text.encode() + text[end:]
    return text


def _offset(lines: list[bytes], line: int, column: int) -> int:
    return sum(map(len, lines[: line - 1])) + column


def _as_in_the_file(line: str, end: str) -> str:
    """Return a line of a diff with the file's line ending, because `patch` compares them."""
    if line.startswith(("---", "+++", "@@")):
        return line
    return line[:-1] + end if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
