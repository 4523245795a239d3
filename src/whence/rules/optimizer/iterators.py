"""Parameters in an iterator that is consumed twice."""

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
    """An exhausted iterator, with the lines that created and consumed it."""

    made: Spot | None
    patch: str | None
    lines: tuple[Spot, ...]
    line: Spot | None

    @property
    def is_local(self) -> bool:
        """Whether the function that created the iterator also consumed it."""
        made, line = self.made, self.line
        return (
            made is None
            or line is None
            or (made.filename, made.function) == (line.filename, line.function)
        )

    @property
    def created_hop(self) -> tuple[Hop, ...]:
        return (self.made.hop("the iterator is created here"),) if self.made is not None else ()

    @property
    def consumed_hop(self) -> tuple[Hop, ...]:
        return (self.line.hop("the iterator is consumed here"),) if self.line is not None else ()


def iterated(stack: tuple[Site, ...], *names: str) -> Iterated | None:
    """The iterator that the call at the top of a stack received, by position or by these names."""
    call = stack[0].node() if stack else None
    given = _argument(call, names) if isinstance(call, ast.Call) else None
    return iterated_in(stack, given) if given is not None else None


def iterated_in(stack: tuple[Site, ...], given: ast.expr) -> Iterated | None:
    """The same for an expression within the call's arguments."""
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
