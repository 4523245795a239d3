"""What a program did before it began to train, done once more line by line, with a look at what each line leaves.

Runs the program's code: only ever in a child process.
"""

from __future__ import annotations

import ast
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, Protocol

import torch

from whence.lineage.again import compiled
from whence.lineage.looking import is_array
from whence.lineage.tables import is_table
from whence.rerun.child import without_further_processes
from whence.source.sites import Site, is_library, variables
from whence.source.text import parent_of, statement_at, statement_of

MOST_EVENTS = 100_000
LONGEST = 4.0
FIRST_NUMBERS = 16
EACH_TIME = 8
"""So often a line of a loop is listened to whenever it has run; later on ever more rarely, and when the loop is over."""

Seen = Callable[[str, int, str, Any], None]
"""A file, a line of it, and a variable with what it has after it; or nobody's name, and what is returned."""


class Tracer(Protocol):
    """Watches the statements that are run again."""

    def entered(self, frame: FrameType, event: str, value: Any) -> Any:
        """What `sys.settrace` is given."""

    def begins(self, names: dict[str, Any]) -> None:
        """A statement of a running function is run again, with these variables."""

    def stays(self, site: Site, statement: ast.stmt, name: str, thing: Any) -> None:
        """A statement cannot be run twice; a variable has what it gave the first time."""

    @property
    def is_done(self) -> bool: ...


class _NoPreparation(Exception):
    """The program begins to train: that is not done again."""


def prepare_again(frames: list[FrameType], tracer: Tracer) -> None:
    """Run what comes before the present line in each running function, the outer ones first."""
    backward = torch.Tensor.backward
    torch.Tensor.backward = _refuse  # type: ignore[method-assign]
    try:
        with without_further_processes():
            for frame in reversed(frames):
                _prepare(frame, tracer)
    finally:
        torch.Tensor.backward = backward  # type: ignore[method-assign]


def _refuse(*_: Any, **__: Any) -> None:
    raise _NoPreparation


def _prepare(frame: FrameType, tracer: Tracer) -> None:
    site, now = Site.of(frame), variables(frame)
    names = {**frame.f_globals, **now}
    before = sys.gettrace()
    for statement in _before(site):
        code = _code_of(statement, site) if not tracer.is_done else None
        if code is None:
            continue
        tracer.begins(names)
        sys.settrace(tracer.entered)
        try:
            exec(code, names)
        except Exception:
            sys.settrace(before)
            for name in _bound(statement) & now.keys():
                names[name] = now[name]
                tracer.stays(site, statement, name, now[name])
        finally:
            sys.settrace(before)


@dataclass(slots=True)
class VariableWatch:
    """Is told of each variable that has something else after a line, and of what functions return."""

    seen: Seen
    _lines: dict[FrameType, int] = field(default_factory=dict)
    _held: dict[FrameType, dict[str, Hashable]] = field(default_factory=dict)
    _there: dict[str, Hashable] = field(default_factory=dict)
    """What the statement that is run again finds."""
    _times: Counter[tuple[FrameType, int, str]] = field(default_factory=Counter)
    _waiting: dict[FrameType, dict[tuple[int, str], Any]] = field(default_factory=dict)
    """What a loop has left by now, and has not been told of."""
    _events: int = 0
    _began: float = field(default_factory=time.monotonic)

    @property
    def is_done(self) -> bool:
        return self._events > MOST_EVENTS or time.monotonic() - self._began > LONGEST

    def begins(self, names: dict[str, Any]) -> None:
        self._there = {name: _mark(each) for name, each in names.items()}

    def stays(self, site: Site, statement: ast.stmt, name: str, thing: Any) -> None:
        self.seen(site.filename, statement.lineno, name, thing)

    def entered(self, frame: FrameType, _event: str, _value: Any) -> Any:
        if is_library(frame.f_code.co_filename) or self.is_done:
            return None
        self._lines[frame] = frame.f_lineno
        self._held[frame] = dict(self._there) if frame.f_locals is frame.f_globals else {}
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, value: Any) -> Any:
        self._events += 1
        if self.is_done:
            return None
        filename, line = frame.f_code.co_filename, self._lines[frame]
        held = self._held[frame]
        written = _written(filename, line)
        if (waiting := self._waiting.get(frame)) and (
            event == "return" or not _is_in_loop(filename, line, waiting)
        ):
            self._tell_waiting(frame)
        for name, each in list(frame.f_locals.items()):
            mark = _mark(each)
            if held.get(name) != mark or name in written:
                held[name] = mark
                self._note(frame, line, name, each)
        if event == "return":
            self._tell_waiting(frame)
            if value is not None:
                self.seen(filename, line, "", value)
        self._lines[frame] = frame.f_lineno
        return self._stepped

    def _note(self, frame: FrameType, line: int, name: str, thing: Any) -> None:
        key = frame, line, name
        self._times[key] += 1
        times = self._times[key]
        if times <= EACH_TIME or times & (times - 1) == 0:
            self._waiting.get(frame, {}).pop((line, name), None)
            self.seen(frame.f_code.co_filename, line, name, thing)
        else:
            self._waiting.setdefault(frame, {})[line, name] = thing

    def _tell_waiting(self, frame: FrameType) -> None:
        for (line, name), thing in self._waiting.pop(frame, {}).items():
            self.seen(frame.f_code.co_filename, line, name, thing)


def _is_in_loop(filename: str, line: int, waiting: Iterable[tuple[int, str]]) -> bool:
    """Whether a line belongs to a loop around all those that wait."""
    loops = [_loop_around(filename, each) for each, _ in waiting]
    return all(loop is not None and loop[0] <= line <= loop[1] for loop in loops)


@lru_cache(maxsize=4096)
def _loop_around(filename: str, line: int) -> tuple[int, int] | None:
    """The first and the last line of the outermost loop that a line stands in."""
    found = None
    node: ast.AST | None = statement_at(filename, line)
    while node is not None and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            found = node.lineno, node.end_lineno or node.lineno
        node = parent_of(node)
    return found


@lru_cache(maxsize=4096)
def _written(filename: str, line: int) -> frozenset[str]:
    """The variables whose elements a line sets: `table[rows, 2] = 0`."""
    match statement_at(filename, line):
        case ast.Assign(targets=targets):
            written = [each.value for each in targets if isinstance(each, ast.Subscript)]
        case ast.AugAssign(target=ast.Subscript(value=value)):
            written = [value]
        case _:
            written = []
    return frozenset(
        each.id for target in written for each in ast.walk(target) if isinstance(each, ast.Name)
    )


def first_shown(frames: list[FrameType], shows: Callable[[Any], bool]) -> tuple[str, int] | None:
    """The first line before training after which a variable shows something."""
    found: list[tuple[str, int]] = []

    def seen(filename: str, line: int, _name: str, thing: Any) -> None:
        with suppress(Exception):
            if not found and shows(thing):
                found.append((filename, line))

    prepare_again(frames, VariableWatch(seen))
    return found[0] if found else None


def _mark(thing: Any) -> Hashable:
    """Another one for another object, and for one whose first numbers have changed."""
    if isinstance(thing, list):
        return id(thing), len(thing), *map(id, thing[:FIRST_NUMBERS])
    if is_array(thing) and thing.dtype.kind in "iufb":
        return id(thing), thing.reshape(-1)[
            :FIRST_NUMBERS
        ].tobytes() if thing.flags.c_contiguous else b""
    if is_table(thing):
        return id(thing), thing.shape, *thing.index[:FIRST_NUMBERS]
    if isinstance(thing, torch.Tensor) and thing.layout is torch.strided:
        return id(thing), thing._version
    return id(thing)


def _code_of(statement: ast.stmt, site: Site) -> CodeType | None:
    try:
        return compiled(statement, site)
    except (SyntaxError, ValueError):
        return None


def _before(site: Site) -> Iterator[ast.stmt]:
    """The statements that lead to a place, in its function or module: those before it, and those before what is around it."""
    node = site.node()
    current: ast.AST | None = statement_of(node) if node is not None else site.statement()
    blocks: list[list[ast.stmt]] = []
    while current is not None and (parent := parent_of(current)) is not None:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and current in block:
                blocks.append(block[: block.index(current)])
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            break
        current = parent
    for block in reversed(blocks):
        yield from (
            each for each in block if not isinstance(each, ast.Return | ast.Break | ast.Continue)
        )


def _bound(statement: ast.stmt) -> set[str]:
    names = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
    return {each.id for each in names if isinstance(each.ctx, ast.Store)}
