"""The ledger of rounds: inner training loops over an iterator that the outer loop reuses.

An exhausted iterator gives no event, because the body of the inner loop does not run. The ledger
observes the iteration of the outer loop whenever the program does something else there: an
iteration past the inner loop without a step.
"""

from __future__ import annotations

import ast
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, GeneratorType
from typing import Any

from whence.lineage.looking import Unknown, attribute, look
from whence.lineage.loops.feeding import Place, place_of_site
from whence.lineage.loops.iterators import draws_on, is_exhausted, is_iterator, maker_of
from whence.source.classes import assignments_of
from whence.source.definitions import (
    FunctionNode,
    argument_for,
    bindings_in,
    class_of_method,
    parameter_names,
)
from whence.source.sites import Site, frames_from, variables
from whence.source.spots import Spot
from whence.source.text import enclosing, function_node, parent_of, statement_at, tree_of

MOST_LOOKS = 20_000
MOST_STACKS = 32

Finder = Callable[[dict[str, Any]], Any]


@dataclass(eq=False, slots=True)
class Round:
    """An inner loop over an iterator, and the outer loop that returns to it."""

    code: CodeType
    names: dict[str, Any]
    """The globals of the outer loop's module."""
    outer: ast.For
    variable: str
    """The loop variable of the outer loop."""
    passed: int
    """The last line of the outer loop's statement that contains or calls the inner loop."""
    iterator: Finder
    """Finds the iterator among the variables of the outer loop."""
    inner: Spot
    made: Spot | None
    last: Any = None
    """The last iteration of the outer loop, if it is known and nothing can end the loop earlier."""
    turn: Any = None
    """The iteration of the last step."""
    seen: Any = None
    """The last iteration that was observed."""
    empty: Any = None
    """An iteration without a step, because the iterator was exhausted."""

    def turn_in(self, names: dict[str, Any]) -> Any:
        value = names.get(self.variable)
        return value if isinstance(value, int | str) else None

    @property
    def skips(self) -> bool:
        """Whether an iteration may end before it reaches the inner loop."""
        return any(isinstance(each, ast.Continue) for each in ast.walk(self.outer))

    def is_past(self, line: int) -> bool:
        return self.passed < line <= (self.outer.end_lineno or 0)


class RoundLedger:
    """Loops, bounded; free where the program has no such loop."""

    def __init__(self) -> None:
        self.open: list[Round] = []
        self.empty: list[Round] = []
        self._known: set[tuple[Site, ...]] = set()
        self._looks = 0

    def is_new(self, stack: tuple[Site, ...]) -> bool:
        """Whether this is the first step with this stack, which may be inside unknown loops."""
        if stack in self._known or len(self._known) >= MOST_STACKS:
            return False
        self._known.add(stack)
        return True

    def enter(self, frames: list[FrameType]) -> None:
        for found in _rounds_in(frames):
            if not any(
                each.outer is found.outer and each.inner == found.inner for each in self.open
            ):
                self.open.append(found)

    def note_turns(self, frame: FrameType | None) -> None:
        """Record the iteration in which a step is made."""
        for found, where in self._running(frame):
            found.turn = found.seen = found.turn_in(variables(where))

    def passes_by(self, frame: FrameType | None) -> bool:
        """Check an event of the program: True if it reveals an iteration without training."""
        self._looks += 1
        if self._looks > MOST_LOOKS:
            self.open.clear()
        for found, where in self._running(frame):
            names = variables(where)
            before, found.seen = found.seen, found.turn_in(names)
            if found.is_past(where.f_lineno) and self._is_empty(found, found.seen, names):
                return True
            if (
                before not in (None, found.seen)
                and not found.skips
                and self._is_empty(found, before, names)
            ):
                return True
        return False

    def fails_in(self, sites: tuple[Site, ...], frames: list[FrameType]) -> bool:
        """Check an exception that leaves the program: True if it is past an exhausted loop."""
        lines = {site.f_code: site.f_lineno for site in sites}
        for frame in frames:
            for found in [each for each in self.open if each.code is frame.f_code]:
                names = variables(frame)
                line = lines.get(frame.f_code, frame.f_lineno)
                if found.is_past(line) and self._is_empty(found, found.turn_in(names), names):
                    return True
        return False

    def left(self, frames: list[FrameType]) -> None:
        """Drop the loops that something other than an error, such as an exit, leaves early."""
        codes = {each.f_code for each in frames}
        self.open = [each for each in self.open if each.code not in codes]

    def at_the_end(self) -> None:
        """Check the loops at the end of the program.

        The variables of modules still exist; those of functions are gone. If all iterations ran,
        and none after the one that exhausted the iterator had a step, the iterator was empty.
        """
        running = {each.f_code for each in frames_from(sys._getframe(1))}
        for found in list(self.open):
            if found.code.co_name == "<module>" and not _leaves(found.outer):
                self._is_empty(found, found.turn_in(found.names), found.names)
            elif found.code in running:
                # The program is asked to stop, and has not reached the end of its loop.
                continue
            elif (
                None not in (found.last, found.turn)
                and found.turn != found.last
                and not found.skips
            ):
                self._keep(found, found.last)

    def _is_empty(self, found: Round, turn: Any, names: dict[str, Any]) -> bool:
        """Whether an iteration past its inner loop had no step due to an exhausted iterator."""
        if (
            turn is None
            or found.turn is None
            or turn == found.turn
            or not is_exhausted(found.iterator(names))
        ):
            return False
        self._keep(found, turn)
        return True

    def _keep(self, found: Round, turn: Any) -> None:
        found.empty = turn
        self.open.remove(found)
        self.empty.append(found)

    def _running(self, frame: FrameType | None) -> Iterator[tuple[Round, FrameType]]:
        codes = {each.code for each in self.open}
        for where in frames_from(frame):
            if where.f_code in codes:
                yield from [(each, where) for each in list(self.open) if each.code is where.f_code]


def _rounds_in(frames: list[FrameType]) -> Iterator[Round]:
    for depth, frame in enumerate(frames):
        for loop in _loops_around(frame):
            if isinstance(loop, ast.For) and not _leaves(loop):
                for node in _drawn_on(loop.iter):
                    found = _round(node, loop, frames[depth:])
                    if found is not None:
                        yield found


def _loops_around(frame: FrameType) -> Iterator[ast.For | ast.While]:
    """The loops of a function that are running, innermost first."""
    walker: ast.AST | None = statement_at(frame.f_code.co_filename, frame.f_lineno)
    while walker is not None and not isinstance(walker, FunctionNode | ast.ClassDef | ast.Module):
        if isinstance(walker, ast.For | ast.While):
            yield walker
        walker = parent_of(walker)


def _drawn_on(source: ast.expr) -> Iterator[ast.Name | ast.Attribute]:
    """The variables a loop draws on: the iterated one, or the arguments of the iterated call."""
    if isinstance(source, ast.Name | ast.Attribute):
        yield source
    elif isinstance(source, ast.Call):
        for each in source.args:
            yield from _drawn_on(each)


def _leaves(loop: ast.For) -> bool:
    """Whether a loop may end early."""
    pending: list[ast.AST] = [*loop.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Break | ast.Return):
            return True
        if isinstance(node, ast.For | ast.While):
            if any(isinstance(each, ast.Return) for each in ast.walk(node)):
                return True
        elif not isinstance(node, FunctionNode):
            pending += ast.iter_child_nodes(node)
    return False


def _round(node: ast.Name | ast.Attribute, inner: ast.For, frames: list[FrameType]) -> Round | None:
    """Find the loop around an inner loop, and the variable that holds the iterator there."""
    home = frames[0]
    try:
        if not is_iterator(look(node, home)):
            return None
    except Unknown:
        return None
    owner = _owner(node, home)
    spot = Spot.of_node(home.f_code.co_filename, inner.iter)
    statement: ast.AST = inner
    named: ast.Name | ast.Attribute = node
    for depth, frame in enumerate(frames):
        outer, statement_in_outer = _outer_of(statement)
        if outer is None and statement_in_outer is None:
            return None
        if outer is not None:
            if not isinstance(outer.target, ast.Name) or _is_remade(named, owner, outer, frame):
                return None
            sites = tuple(Site.of(each) for each in frames[depth:])
            place = place_of_site(sites)
            last = (
                getattr(statement_in_outer, "end_lineno", None) or outer.end_lineno or outer.lineno
            )
            made = _made(named, owner, place)
            find = _finder(named, owner, frame.f_globals)
            turn = _last_turn(outer, frame) if _ends_by_itself(find(variables(frame))) else None
            return Round(
                frame.f_code,
                frame.f_globals,
                outer,
                outer.target.id,
                last,
                find,
                spot,
                made,
                turn,
            )
        if depth + 1 == len(frames):
            return None
        site = Site.of(frames[depth + 1])
        call, function = site.node(), function_node(Site.of(frame))
        if not isinstance(call, ast.Call) or not isinstance(function, FunctionNode):
            return None
        if owner is None and isinstance(named, ast.Name):
            bound = class_of_method(function) is not None and parameter_names(function)[:1] == [
                "self"
            ]
            given = argument_for(call, function, named.id, bound=bound)
            if named.id in variables(frame):
                if not isinstance(given, ast.Name | ast.Attribute):
                    return None
                named = given
                owner = _owner(named, frames[depth + 1])
        around = site.statement()
        if around is None:
            return None
        statement = around
    return None


def _ends_by_itself(iterator: Any) -> bool:
    """Whether a generator's file has no endless generator, so that the iteration ends by itself."""
    filename = iterator.gi_code.co_filename if isinstance(iterator, GeneratorType) else ""
    tree = tree_of(filename) if filename else None
    functions = (
        [each for each in ast.walk(tree) if isinstance(each, FunctionNode)]
        if tree is not None
        else []
    )
    yielding = [
        each
        for each in functions
        if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(each))
    ]
    return bool(yielding) and not any(
        isinstance(part, ast.While) for each in yielding for part in ast.walk(each)
    )


def _last_turn(outer: ast.For, frame: FrameType) -> Any:
    """The last value of a loop, if neither its lines nor a handler around it can end it early."""
    ends = (ast.Raise, ast.Try)
    if (
        _leaves(outer)
        or enclosing(outer, ast.Try) is not None
        or any(isinstance(each, ends) for each in ast.walk(outer))
    ):
        return None
    try:
        match outer.iter:
            case ast.Call(func=ast.Name(id="range"), args=args):
                turns: Any = range(*(look(each, frame) for each in args))
            case _:
                turns = look(outer.iter, frame)
        return turns[-1] if isinstance(turns, range | list | tuple) and turns else None
    except (Unknown, TypeError, ValueError):
        return None


def _outer_of(statement: ast.AST) -> tuple[ast.For | None, ast.AST | None]:
    """The loop around a statement, and the loop's own statement that contains it.

    Without a loop, the function's own statement; neither, where a condition decides whether the
    statement runs.
    """
    child, walker = statement, parent_of(statement)
    while walker is not None:
        if isinstance(walker, ast.For):
            return walker, child
        if isinstance(walker, FunctionNode | ast.Module):
            return None, child
        if not isinstance(walker, ast.With | ast.Try):
            return None, None
        child, walker = walker, parent_of(walker)
    return None, None


def _owner(node: ast.expr, frame: FrameType) -> weakref.ref[Any] | None:
    """A weak reference to the object of `self.batches`."""
    if not isinstance(node, ast.Attribute):
        return None
    try:
        return weakref.ref(look(node.value, frame))
    except (Unknown, TypeError):
        return None


def _is_remade(
    node: ast.Name | ast.Attribute, owner: weakref.ref[Any] | None, outer: ast.For, frame: FrameType
) -> bool:
    """Whether the loop, or a method of its object, replaces the iterator or rewinds its file."""
    name = node.id if isinstance(node, ast.Name) else node.attr
    if isinstance(node, ast.Attribute) and (
        owner is None or len(assignments_of(type(owner()), name)) != 1
    ):
        return True
    return name in bindings_in(outer) or any(
        _rewinds(each, node, frame) for each in ast.walk(outer)
    )


def _rewinds(node: ast.AST, iterated: ast.expr, frame: FrameType) -> bool:
    """Whether the call rewinds something the iterator draws on, unlike a loss meter's `reset`."""
    if not isinstance(node, ast.Attribute) or node.attr not in ("seek", "reset"):
        return False
    try:
        return draws_on(look(iterated, frame), look(node.value, frame))
    except Unknown:
        return True


def _finder(
    node: ast.Name | ast.Attribute, owner: weakref.ref[Any] | None, names: dict[str, Any]
) -> Finder:
    def find(local: dict[str, Any]) -> Any:
        if isinstance(node, ast.Name):
            return local.get(node.id, names.get(node.id))
        try:
            return attribute(owner(), node.attr) if owner is not None else None
        except Unknown:
            return None

    return find


def _made(
    node: ast.Name | ast.Attribute, owner: weakref.ref[Any] | None, place: Place | None
) -> Spot | None:
    if isinstance(node, ast.Attribute):
        found = assignments_of(type(owner()), node.attr) if owner is not None else []
        return (
            Spot.of_node(found[0][1], found[0][0].value)
            if found and found[0][0].value is not None
            else None
        )
    return maker_of(node, place) if place is not None else None
