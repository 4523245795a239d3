"""Lines of the program that have run, and run once more: to see what they had in hand. Only ever in a child process."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType, GeneratorType, MethodType
from typing import Any

from whence.lineage.looking import Unknown, look
from whence.lineage.postmortem import evaluated
from whence.lineage.preparation import prepare_again
from whence.source.definitions import is_bound_after, own_nodes
from whence.source.sites import Site, is_library
from whence.source.text import function_node, parent_of, statement_at, statement_of
from whence.tape.batches import BatchLeaf

MOST_EVENTS = 50_000
DEEPEST_CALL = 3
Seen = Callable[[ast.stmt, FrameType], None]


@dataclass(slots=True)
class StatementWatch:
    """A tracer. It is told of some statements each time before they run."""

    wanted: list[tuple[str, ast.stmt]]
    """Each with its file."""
    seen: Seen
    ran: list[ast.stmt] = field(default_factory=list)
    """Those that have run."""
    _events: int = 0

    @property
    def is_done(self) -> bool:
        return self._events > MOST_EVENTS

    def begins(self, names: dict[str, Any]) -> None:
        pass

    def stays(self, site: Site, statement: ast.stmt, name: str, thing: Any) -> None:
        pass

    def during(self, make: Callable[[], Any]) -> None:
        before = sys.gettrace()
        sys.settrace(self.entered)
        try:
            make()
        finally:
            sys.settrace(before)

    def entered(self, frame: FrameType, event: str, _value: Any) -> Any:
        filename = frame.f_code.co_filename
        if is_library(filename) or self.is_done:
            return None
        self._events += 1
        if event == "line" and any(filename == each for each, _ in self.wanted):
            statement = statement_at(filename, frame.f_lineno)
            if statement is not None and any(statement is each for _, each in self.wanted):
                self.ran.append(statement)
                self.seen(statement, frame)
        return self.entered


def run_again(
    wanted: list[tuple[str, ast.stmt]], seen: Seen, leaf: BatchLeaf | None, frames: list[FrameType]
) -> None:
    """Have statements run, however that can be done: by fetching a batch, where they stand, by calling what has them in it, or else
    by doing all that comes before training once more."""
    watch = StatementWatch(wanted, seen)
    if leaf is not None and leaf.batch.indices is not None and leaf.batch.info.dataset is not None:
        info, indices = leaf.batch.info, leaf.batch.indices
        watch.during(lambda: info.collated([info.dataset[each] for each in indices]))
    for frame, statement in _standing(wanted, frames):
        watch.ran.append(statement)
        seen(statement, frame)
    for frame, call in _calls_into(wanted, frames):
        watch.during(lambda frame=frame, call=call: _quietly(call, frame))  # type: ignore[misc]
    left = [each for each in wanted if not any(each[1] is statement for statement in watch.ran)]
    if left:
        # What they read has been bound anew since, by themselves (`x = scaled(x)`) or later.
        prepare_again(frames, StatementWatch(left, seen))


def _quietly(call: ast.Call, frame: FrameType) -> None:
    try:
        made = evaluated(call, frame)
    except Unknown:
        return
    if isinstance(made, GeneratorType):
        # Nothing of it runs until it is asked for the first time.
        with suppress(Exception):
            next(made, None)


def _standing(
    wanted: list[tuple[str, ast.stmt]], frames: list[FrameType]
) -> Iterator[tuple[FrameType, ast.stmt]]:
    """Statements of functions that are running, if what they read has not been bound anew since."""
    for frame in frames:
        scope = function_node(Site.of(frame))
        for filename, statement in wanted:
            if filename != frame.f_code.co_filename or scope is None:
                continue
            if any(each is statement for each in own_nodes(scope)) and _is_as_it_was(
                statement, scope
            ):
                yield frame, statement


def _is_as_it_was(node: ast.stmt | ast.expr, scope: ast.AST) -> bool:
    """Whether nothing that a statement reads has another value by now: by the statement itself, or after it."""
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    within = {
        each.id
        for each in names
        if isinstance(parent_of(each), ast.comprehension) and _is_bound(each)
    }
    read = {each.id for each in names if not _is_bound(each)} - within
    after = ast.Pass(lineno=(node.end_lineno or node.lineno) + 1, col_offset=0)
    own = {each.id for each in names if _is_bound(each)}
    return not read & own and not any(is_bound_after(name, scope, after) for name in read)


def _is_bound(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _calls_into(
    wanted: list[tuple[str, ast.stmt]], frames: list[FrameType]
) -> Iterator[tuple[FrameType, ast.Call]]:
    """Calls in the functions that are running, of functions and classes that have the statements in them."""
    running = {frame.f_code for frame in frames}
    for frame in frames:
        scope = function_node(Site.of(frame))
        for node in own_nodes(scope) if scope is not None else ():
            if not isinstance(node, ast.Call) or not _can_be_read(node, scope):
                continue
            try:
                codes = set(_reached_from(look(node.func, frame)))
            except Unknown:
                continue
            if not codes & running and any(_has(code, *each) for code in codes for each in wanted):
                yield frame, node


def _can_be_read(node: ast.Call, scope: ast.AST | None) -> bool:
    statement = statement_of(node)
    if statement is None or scope is None:
        return False
    # Of a loop or a block it is the head that has run: what it has in it comes after.
    return _is_as_it_was(node if hasattr(statement, "body") else statement, scope)


def _reached_from(target: Any) -> Iterator[CodeType]:
    """The code that a call may run, with that of the functions, classes and methods of the program's that it names in turn."""
    owner = getattr(target, "__self__", None)
    kind = type(owner) if isinstance(target, MethodType) and not isinstance(owner, type) else None
    pending: list[tuple[Any, int, type | None]] = [(target, 0, kind)]
    seen = set[int]()
    while pending:
        called, depth, kind = pending.pop(0)
        if id(called) in seen:
            continue
        seen.add(id(called))
        for code, names in _codes_of(called):
            yield code
            if depth == DEEPEST_CALL:
                continue
            known = [names[each] for each in code.co_names if each in names]
            pending += [(each, depth + 1, None) for each in known if callable(each)]
            own = [getattr(kind, each, None) for each in code.co_names] if kind is not None else []
            pending += [(each, depth + 1, kind) for each in own if isinstance(each, FunctionType)]


def _codes_of(target: Any) -> Iterator[tuple[CodeType, dict[str, Any]]]:
    """The code that a call may run first, and the variables of its module: a function's, or that of all methods of a class."""
    methods = (
        [each for kind in target.__mro__ for each in vars(kind).values()]
        if isinstance(target, type)
        else [target]
    )
    for each in methods:
        function = getattr(each, "__func__", each)
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType) and not is_library(code.co_filename):
            yield code, getattr(function, "__globals__", {})


def _has(code: CodeType, filename: str, statement: ast.stmt) -> bool:
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return code.co_filename == filename and min(lines) <= statement.lineno <= max(lines)
