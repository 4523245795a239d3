"""Source text and syntax trees of the user's code: a file, `-c`, or a notebook cell."""

from __future__ import annotations

import ast
import linecache
import os
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType

import executing

from whence.finding import Span
from whence.source.sites import Site


def source_of(filename: str) -> executing.Source | None:
    """Return the parsed file with parent links, or None if it has no readable source."""
    try:
        source = executing.Source.for_filename(filename)
    except Exception:
        return None
    return source if source.tree is not None else None


def tree_of(filename: str) -> ast.Module | None:
    source = source_of(filename)
    return source.tree if source is not None else None


def lines_of(filename: str) -> list[str]:
    return [line.rstrip("\n") for line in linecache.getlines(filename)]


def line_of(filename: str, number: int) -> str:
    return linecache.getline(filename, number).rstrip("\n")


def _as_written(filename: str) -> str | None:
    """Return the text of a file with its own line endings.

    None if it is no file (a notebook cell), or if it has changed since it ran.
    """
    try:
        text = Path(filename).read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
    is_same = text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n").split(
        "\n"
    ) == lines_of(filename)
    return text if is_same else None


def end_of_lines(filename: str) -> str | None:
    """Return the line ending of a file, if all its lines have the same."""
    text = _as_written(filename)
    ends = {"\r\n" if line.endswith("\r") else "\n" for line in (text or "").split("\n")[:-1]}
    return None if text is None or len(ends) > 1 else next(iter(ends), "\n")


def has_last_end(filename: str) -> bool:
    """Return whether the last line of a file has a line ending."""
    return (_as_written(filename) or "\n").endswith("\n")


def code_of(filename: str, span: Span) -> str:
    """Return the text within a span on one line, with white space collapsed."""
    lines = lines_of(filename)[span.line - 1 : span.end_line]
    if not lines or span.end_column == 0 or (len(lines) > 1 and lines[0].rstrip().endswith(":")):
        # The header of a loop or block is enough.
        return line_of(filename, span.line).strip()
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][: span.end_column]
    encoded[0] = encoded[0][span.column :]
    return " ".join(" ".join(part.decode(errors="replace") for part in encoded).split())


def span_of(node: ast.AST) -> Span:
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    return Span(
        line,
        column,
        getattr(node, "end_lineno", None) or line,
        getattr(node, "end_col_offset", None) or column,
    )


def text_of(filename: str, node: ast.AST) -> str:
    return code_of(filename, span_of(node))


def root_name(node: ast.expr) -> str:
    """Return the first name of an expression: `np` in `np.random.rand(3)`."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def parent_of(node: ast.AST) -> ast.AST | None:
    """Return the enclosing node, which `executing` stores in every tree it parses."""
    parent = getattr(node, "parent", None)
    return parent if isinstance(parent, ast.AST) else None


def last_name(node: ast.AST) -> str:
    """Return the last part of a dotted name; empty for anything else."""
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def enclosing(node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
    walker = parent_of(node)
    while walker is not None and not isinstance(walker, kinds):
        walker = parent_of(walker)
    return walker


def statement_of(node: ast.AST) -> ast.stmt | None:
    walker: ast.AST | None = node
    while walker is not None and not isinstance(walker, ast.stmt):
        walker = parent_of(walker)
    return walker


def function_node(site: Site) -> ast.AST | None:
    """Return the syntax node of the function or module that contains a site."""
    tree = tree_of(site.filename)
    if tree is None or site.function == "<module>":
        return tree
    first = site.f_code.co_firstlineno
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == site.function:
            starts = [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
            if min(starts) == first:
                return node
        if isinstance(node, ast.Lambda) and site.function == "<lambda>" and node.lineno == first:
            return node
    return tree if site.function.startswith("<") else None


@cache
def _relative(filename: str, folder: str) -> str:
    relative = os.path.relpath(filename, folder)
    return filename if relative.startswith("..") else relative


def shown_path(filename: str) -> str:
    """Return a path as reports print it: relative if it is below the working directory."""
    if filename.startswith("<"):
        return filename
    return _relative(os.path.abspath(filename), os.getcwd())


def site_of_node(filename: str, node: ast.AST) -> Site | None:
    """Return the point in a file's code at which an expression is evaluated, without running it."""
    try:
        pending = [compile("\n".join(lines_of(filename)) + "\n", filename, "exec")]
    except (SyntaxError, ValueError):
        return None
    span = span_of(node)
    wanted = span.line, span.end_line, span.column, span.end_column
    while pending:
        code = pending.pop()
        # Of several instructions for one expression, the last one computes it.
        for number, position in reversed(list(enumerate(code.co_positions()))):
            if position == wanted:
                return Site(code, 2 * number, span.line, {})
        pending += [each for each in code.co_consts if isinstance(each, CodeType)]
    return None


def statement_at(filename: str, line: int) -> ast.stmt | None:
    """Return the innermost statement at a line; of several on one line, the first."""
    source = source_of(filename)
    return _statement_at(source, line) if source is not None else None


@lru_cache(maxsize=4096)
def _statement_at(source: executing.Source, line: int) -> ast.stmt | None:
    """Return the statement at a line. Tracers call this for every line that runs."""
    around = (each for each in source.statements_at_line(line) if isinstance(each, ast.stmt))
    return max(
        around,
        key=lambda each: (each.lineno, -(each.end_lineno or 0), -each.col_offset),
        default=None,
    )
