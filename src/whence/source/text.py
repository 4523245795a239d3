"""Source text and syntax trees of the user's files, whatever they came from: a file, `-c`, a notebook cell."""

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
    """The parsed file with parent links, or None where there is no readable source."""
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
    """The text of a file with its own line ends; None where it is no file (a notebook's cell), or not as it was when it was run."""
    try:
        text = Path(filename).read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
    is_same = text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n").split(
        "\n"
    ) == lines_of(filename)
    return text if is_same else None


def end_of_lines(filename: str) -> str | None:
    """How the lines of a file end, if all of them end alike."""
    text = _as_written(filename)
    ends = {"\r\n" if line.endswith("\r") else "\n" for line in (text or "").split("\n")[:-1]}
    return None if text is None or len(ends) > 1 else next(iter(ends), "\n")


def has_last_end(filename: str) -> bool:
    """Whether the last line of a file ends as all others do."""
    return (_as_written(filename) or "\n").endswith("\n")


def code_of(filename: str, span: Span) -> str:
    """The text within a span, on one line, white space folded."""
    lines = lines_of(filename)[span.line - 1 : span.end_line]
    if not lines or span.end_column == 0 or (len(lines) > 1 and lines[0].rstrip().endswith(":")):
        # Of a loop or a block the head says enough.
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
    """The name that an expression begins with: `np` of np.random.rand(3), `torch` of torch.ones(2).float()."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def parent_of(node: ast.AST) -> ast.AST | None:
    """The enclosing node; `executing` hangs it on every tree it parses."""
    parent = getattr(node, "parent", None)
    return parent if isinstance(parent, ast.AST) else None


def last_name(node: ast.AST) -> str:
    """The last word of a dotted name; empty for what is none."""
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
    """The syntax node of the function (or module) that a site lies in."""
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
    """A path as reports print it: relative to the working directory where it lies below it."""
    if filename.startswith("<"):
        return filename
    return _relative(os.path.abspath(filename), os.getcwd())


def site_of_node(filename: str, node: ast.AST) -> Site | None:
    """The point in the code of a file at which an expression is made, without anything that runs."""
    try:
        pending = [compile("\n".join(lines_of(filename)) + "\n", filename, "exec")]
    except (SyntaxError, ValueError):
        return None
    span = span_of(node)
    wanted = span.line, span.end_line, span.column, span.end_column
    while pending:
        code = pending.pop()
        # Of several instructions for one expression the last is the one that makes it.
        for number, position in reversed(list(enumerate(code.co_positions()))):
            if position == wanted:
                return Site(code, 2 * number, span.line, {})
        pending += [each for each in code.co_consts if isinstance(each, CodeType)]
    return None


def statement_at(filename: str, line: int) -> ast.stmt | None:
    """The innermost statement that has a line in it; of several on one line the first."""
    source = source_of(filename)
    return _statement_at(source, line) if source is not None else None


@lru_cache(maxsize=4096)
def _statement_at(source: executing.Source, line: int) -> ast.stmt | None:
    """Tracers ask this for every line that runs."""
    around = (each for each in source.statements_at_line(line) if isinstance(each, ast.stmt))
    return max(
        around,
        key=lambda each: (each.lineno, -(each.end_lineno or 0), -each.col_offset),
        default=None,
    )
