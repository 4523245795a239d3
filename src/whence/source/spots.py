"""A spot: one expression in the user's source, ready for display."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from whence.finding import Hop, Span
from whence.source.sites import Site
from whence.source.text import code_of, parent_of, shown_path, source_of, span_of


@dataclass(frozen=True, slots=True)
class Spot:
    filename: str
    span: Span
    function: str

    @classmethod
    def of_site(cls, site: Site) -> Spot:
        return cls(site.filename, site.span(), site.function)

    @classmethod
    def of_node(cls, filename: str, node: ast.AST) -> Spot:
        walker: ast.AST | None = node
        while walker is not None and not isinstance(walker, ast.FunctionDef | ast.AsyncFunctionDef):
            walker = parent_of(walker)
        return cls(filename, span_of(node), walker.name if walker is not None else "<module>")

    @classmethod
    def of_hop(cls, hop: Hop) -> Spot | None:
        """Return the spot of a hop: its statement, found by line."""
        source = source_of(hop.file)
        if source is None or source.tree is None:
            return None
        here = [
            node
            for node in ast.walk(source.tree)
            if isinstance(node, ast.stmt | ast.expr) and node.lineno == hop.line
        ]
        return cls.of_node(hop.file, here[0]) if here else None

    @property
    def file(self) -> str:
        return shown_path(self.filename)

    @property
    def line(self) -> int:
        return self.span.line

    @property
    def code(self) -> str:
        return code_of(self.filename, self.span)

    def is_within(self, other: Spot) -> bool:
        """Return whether this span is within another one."""
        start, end = (self.span.line, self.span.column), (self.span.end_line, self.span.end_column)
        return (
            self.filename == other.filename
            and (other.span.line, other.span.column) <= start
            and end <= (other.span.end_line, other.span.end_column)
        )

    def node(self) -> ast.AST | None:
        """Return the syntax node with exactly this span; an expression rather than a statement."""
        source = source_of(self.filename)
        if source is None or source.tree is None:
            return None
        found = [
            node
            for node in ast.walk(source.tree)
            if hasattr(node, "lineno") and span_of(node) == self.span
        ]
        expressions = [node for node in found if isinstance(node, ast.expr)]
        return expressions[0] if expressions else found[0] if found else None

    def hop(self, what: str) -> Hop:
        return Hop(self.file, self.line, self.code, what)
