"""From an expression, or an object, back to the expression that made it so.

Live frames give values where there are any; where there are none, only steps that keep the property are taken.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from itertools import chain
from types import FrameType
from typing import Any

from whence.finding import Hop
from whence.lineage.following.attributes import follow_attribute
from whence.lineage.following.calls import follow_returned
from whence.lineage.following.carriers import (
    is_carried_into,
    is_known_not_to_hold,
    is_refuted_by_parts,
    live_carriers,
    silent_carriers,
)
from whence.lineage.following.columns import column_of, lacks_column, table_behind
from whence.lineage.following.containers import Path, follow_joined, part_given, whole_of
from whence.lineage.following.files import follow_written
from whence.lineage.following.found import Found, Refuted
from whence.lineage.following.generators import follow_drawn
from whence.lineage.following.names import follow_name, follow_variable
from whence.lineage.following.passing import is_join, is_number, joins, only_passes
from whence.lineage.grounds import Ground, ground_of_node
from whence.lineage.looking import holders_of, names_of
from whence.lineage.properties import Property
from whence.source.spots import Spot

DEEPEST = 40


@dataclass(slots=True)
class SourceTrace:
    """One search. `frames` are live frames of the program, innermost first."""

    prop: Property
    frames: list[FrameType]
    changed: bool = False
    """Whether it was not so at first, as the same line has gone well: what sets things once is not to blame, but who sets them later."""
    hops: list[Hop] = field(default_factory=list)
    """The way so far, the nearest to the birth first."""
    _seen: set[int] = field(default_factory=set)
    made: tuple[ast.expr, Ground] | None = None
    column: str = ""

    keys: dict[int, Any] = field(default_factory=dict)
    """By a comprehension that makes a dict: the key of the entry that is asked for."""

    def follow(self, node: ast.AST, ground: Ground | None) -> Found:
        if ground is None or not isinstance(node, ast.expr):
            return Found()
        return self.follow_path(node, ground, ())

    def follow_node(self, node: ast.AST, filename: str) -> Found:
        """Begin with an expression of a file, whoever runs it."""
        return self.follow(node, ground_of_node(node, filename, self.frames))

    def follow_path(self, node: ast.expr, ground: Ground, path: Path) -> Found:
        """Begin with a part of what an expression makes: element 1 of a tuple, key "image" of a dict."""
        try:
            spot = self.expression(node, ground, path)
        except Refuted:
            return Found()
        return Found(spot, tuple(self.hops), column=self.column)

    def follow_object(self, thing: Any) -> Found:
        """Begin with an object: the variable that holds it, and its definition."""
        direct = ((name, frame, ()) for name, frame in names_of(thing, self.frames))
        within = ((name, frame, (key,)) for name, frame, key in holders_of(thing, self.frames))
        for name, frame, path in chain[tuple[str, FrameType, Path]](direct, within):
            try:
                spot = follow_variable(self, name, frame, path)
            except Refuted:
                continue
            if spot is not None:
                return Found(spot, tuple(self.hops), self.made, self.column)
        return Found()

    def part_of(self, node: ast.expr, ground: Ground, path: Path) -> ast.expr:
        """The expression within an expression that makes a part of what that makes."""
        for key in path:
            inner = part_given(self, node, ground, key)
            if inner is None:
                return node
            node = inner
        return node

    def aside(self) -> SourceTrace:
        """Another search for the same, from its beginning."""
        return SourceTrace(self.prop, self.frames, self.changed)

    def continued(self) -> SourceTrace:
        """The same search, gone on with from elsewhere."""
        return SourceTrace(self.prop, self.frames, self.changed, self.hops, self._seen)

    def narrowed(self, prop: Property) -> SourceTrace:
        """The same search for less; `adopt` comes back with what it found."""
        return SourceTrace(prop, self.frames, self.changed, self.hops, self._seen)

    def branched(self) -> SourceTrace:
        """The same search on one of several ways, of which `adopt` takes the right one."""
        return SourceTrace(self.prop, self.frames, self.changed, list(self.hops), set(self._seen))

    def adopt(self, other: SourceTrace) -> None:
        self.hops, self._seen, self.made = other.hops, other._seen, other.made
        self.column = self.column or other.column

    def expression(self, node: ast.expr, ground: Ground, path: Path = ()) -> Spot | None:
        """The spot of the birth, or None where the trail is lost. So do all functions of this folder that are called `follow_`."""
        here = Spot.of_node(ground.filename, node)
        if id(node) in self._seen or len(self._seen) > DEEPEST:
            return here
        self._seen.add(id(node))
        if not path and (path := column_of(self, node, ground)):
            self.column = self.column or path[0]
        if isinstance(node, ast.Name):
            return follow_name(self, node, ground, path)
        if path and (part := part_given(self, node, ground, path[0])) is not None:
            return self.expression(part, ground, path[1:])
        if path and lacks_column(node, path[0]):
            raise Refuted
        if path and isinstance(node, ast.DictComp):
            self.keys[id(node)] = path[0]
            return self.expression(node.value, ground, path[1:]) or here
        if (whole := whole_of(self, node, ground, path)) is not None:
            return self.expression(whole[0], ground, whole[1]) or here
        if (
            path
            and isinstance(path[0], str)
            and (table := table_behind(self, node, ground)) is not None
        ):
            return self.expression(table, ground, path) or here
        if isinstance(node, ast.Tuple | ast.List) and len(node.elts) > 1:
            carrier = (
                next(live_carriers(self, node, ground), None) if self.prop.singles_out else None
            )
            return (
                self.expression(carrier, ground)
                if carrier is not None
                else follow_joined(self, node.elts, ground)
            )
        if self.prop.contradicts(node):
            raise Refuted
        made = _each_made(node) if self.prop.singles_out else node
        if (
            isinstance(made, ast.Call)
            and (found := follow_returned(self, made, ground, path)) is not None
        ):
            return found
        if (
            isinstance(node, ast.Call)
            and (found := follow_written(self, node, ground, path)) is not None
        ):
            return found
        if isinstance(node, ast.Call) and (found := follow_drawn(self, node, ground)) is not None:
            return found
        if path and joins(node):
            # It may have come with either table, if one is known to have it; else it is the join that leaves a gap where rows are missing.
            had = next(live_carriers(self._of_column(path), node, ground), None)
            return here if had is None and self.prop.shows_in_lines and is_join(node) else None
        of_column = self._of_column(path)
        if self.prop.is_set_by(node) and not is_carried_into(of_column, node, ground):
            self.made = node, ground
            return here
        if (
            isinstance(node, ast.Attribute)
            and (found := follow_attribute(self, node, ground, path)) is not None
        ):
            return found
        for operand in live_carriers(of_column, node, ground):
            # Tables are computed with column by column.
            column = path if of_column is not self and isinstance(node, ast.BinOp) else ()
            return self._through(node, operand, ground, column)
        return self._without_values(node, ground)

    def _of_column(self, path: Path) -> SourceTrace:
        """The same question about one column of the tables that an expression is made of."""
        if not path or not isinstance(path[0], str):
            return self
        return SourceTrace(self.prop.of_column(path[0]), self.frames, self.changed)

    def _through(self, node: ast.expr, operand: ast.expr, ground: Ground, path: Path = ()) -> Spot:
        """On to one operand; not where the other one brings a type as well, since of one alone it could not be changed."""
        here = Spot.of_node(ground.filename, node)
        found = self.expression(operand, ground, path) or here
        if (
            not self.prop.of_the_whole
            or not isinstance(node, ast.BinOp)
            or not found.is_within(here)
        ):
            return found
        other = node.right if operand is node.left else node.left
        return (
            found
            if is_number(other, ground.scope) or is_known_not_to_hold(self, other, ground)
            else here
        )

    def _without_values(self, node: ast.expr, ground: Ground) -> Spot | None:
        """On to an operand that the property may come from by the syntax alone."""
        here = Spot.of_node(ground.filename, node)
        refuted = is_refuted_by_parts(self, node, ground)
        for operand in silent_carriers(self, node, ground):
            try:
                return self._through(node, operand, ground)
            except Refuted:
                refuted = True
                if isinstance(node, ast.BinOp):
                    return here
        if (
            refuted
            and isinstance(node, ast.Subscript | ast.Attribute | ast.Call)
            and only_passes(node)
        ):
            raise Refuted
        return here


def _each_made(node: ast.expr) -> ast.expr:
    """What makes each element of a comprehension: one of them has what all of them together are asked for."""
    return node.elt if isinstance(node, ast.ListComp | ast.GeneratorExp) else node
