"""Parameters in an iterator that gives them once, and is gone through twice."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from whence.finding import Hop
from whence.lineage.used_up import used_up
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import text_of


@dataclass(frozen=True, slots=True)
class Iterated:
    """An iterator that was at its end: the line that made it, all lines that may have gone through it, and the one that has."""

    made: Spot | None
    patch: str | None
    lines: tuple[Spot, ...]
    line: Spot | None

    @property
    def is_local(self) -> bool:
        """Who went through it stands in the function that made it, and not in one that was given it."""
        made, line = self.made, self.line
        return (
            made is None
            or line is None
            or (made.filename, made.function) == (line.filename, line.function)
        )

    @property
    def was_made(self) -> tuple[Hop, ...]:
        return (
            (self.made.hop("made here, to be gone through once"),) if self.made is not None else ()
        )

    @property
    def was_used_up(self) -> tuple[Hop, ...]:
        return (self.line.hop("gone through here, to its end"),) if self.line is not None else ()


def iterated(stack: tuple[Site, ...], *names: str) -> Iterated | None:
    """What is known of the iterator that the call at the top of a stack was given, by position or under one of these names."""
    call = stack[0].node() if stack else None
    given = _argument(call, names) if isinstance(call, ast.Call) else None
    return iterated_in(stack, given) if given is not None else None


def iterated_in(stack: tuple[Site, ...], given: ast.expr) -> Iterated | None:
    """The same for an expression in what the call was given."""
    found = used_up(stack, given)
    return Iterated(
        made=Spot.of_node(*found.made) if found.made is not None else None,
        patch=_as_list(*found.made) if found.made is not None else None,
        lines=tuple(found.lines),
        line=found.line,
    )


def _argument(call: ast.Call, names: tuple[str, ...]) -> ast.expr | None:
    named = next((each.value for each in call.keywords if each.arg in names), None)
    return named or next(iter(call.args), None)


def _as_list(filename: str, node: ast.expr) -> str | None:
    text = text_of(filename, node)
    is_bare = isinstance(node, ast.GeneratorExp) and text.startswith("(")
    return diff_of(replace_node(filename, node, f"[{text[1:-1]}]" if is_bare else f"list({text})"))
