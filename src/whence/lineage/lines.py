"""Which line of the program made a sample not finite: fetch it again with an eye on every line.

Runs the program's code: only ever in a child process.
"""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from types import FrameType, ModuleType
from typing import Any

from whence.lineage.blank import zeroed_memory
from whence.lineage.looking import Unknown, look
from whence.lineage.properties import Property
from whence.lineage.tables import is_table
from whence.source.sites import is_library
from whence.source.spots import Spot
from whence.source.text import statement_at, tree_of

MOST_EVENTS = 20_000
LONGEST_WAIT = 3.0
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


class Counts(Enum):
    """Which one counts, where several lines make something so."""

    FIRST = auto()
    LAST = auto()
    LASTING = auto()
    """The first one that nothing has mended before the function around it is done: `nan_to_num` may have."""


@dataclass(slots=True)
class LineWatch:
    """A tracer. Before each line it looks which variables of the frame have the property since the line before."""

    prop: Property
    counts: Counts = Counts.FIRST
    found: tuple[FrameType, int] | None = None
    """The frame and the line after which a variable first had it, with none of those that the line uses having it."""
    source: tuple[FrameType, ast.expr] | None = None
    """Where there is none: the first thing that had it already, an attribute of the dataset say."""
    has_row: bool = False
    """Whether that is a row of a table."""
    _mended: tuple[FrameType, int] | None = None
    """One that was found before, and of which no variable shows anything any more."""
    _lines: dict[FrameType, int] = field(default_factory=dict)
    _bad: dict[FrameType, set[str]] = field(default_factory=dict)
    _entries: dict[FrameType, int] = field(default_factory=dict)
    _began: dict[FrameType, int] = field(default_factory=dict)
    """For each frame, when its present line began."""
    _returning: dict[FrameType, int] = field(default_factory=dict)
    """For each frame, the last line of it that returns: a `with` around that is what it leaves from."""
    _found_at: int = 0
    _found_when: float = 0.0
    _events: int = 0

    def during(self, make: Callable[[], Any]) -> Any:
        before = sys.gettrace()
        with zeroed_memory():
            sys.settrace(self._entered)
            try:
                return make()
            finally:
                sys.settrace(before)

    @property
    def _is_done(self) -> bool:
        if self._events > MOST_EVENTS or self.found is None:
            return self._events > MOST_EVENTS
        is_late = (
            self.counts is Counts.LASTING and time.monotonic() - self._found_when > LONGEST_WAIT
        )
        return is_late or self.counts is Counts.FIRST

    def _entered(self, frame: FrameType, _event: str, _value: Any) -> Any:
        if is_library(frame.f_code.co_filename) or self._is_done:
            return None
        self._bad[frame] = self._holding(frame)
        self._lines[frame] = frame.f_lineno
        self._entries[frame] = self._began[frame] = self._events
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, value: Any) -> Any:
        self._events += 1
        if self._is_done:
            return None
        line = self._lines[frame]
        bad = self._holding(frame)
        new = bad - self._bad[frame]
        # What a function made that this line calls is told there.
        is_told = self._found_at > self._began.get(frame, 0)
        if is_told:
            pass
        elif new and not self._uses_bad(frame, line):
            self._find(frame, line)
        elif (
            event == "return"
            and self.prop.holds(value)
            and not self._uses_bad(frame, self._left_from(frame))
        ):
            self._find(frame, self._left_from(frame))
        if self.counts is Counts.LASTING and self._is_mended(frame, event, value, bad):
            self._mended, self.found, self._found_at = self._mended or self.found, None, 0
        self._bad[frame] = bad
        self._lines[frame] = frame.f_lineno
        self._began[frame] = self._events
        if isinstance(statement_at(frame.f_code.co_filename, frame.f_lineno), ast.Return):
            self._returning[frame] = frame.f_lineno
        return self._stepped

    def _left_from(self, frame: FrameType) -> int:
        return self._returning.get(frame, frame.f_lineno)

    def _is_mended(self, frame: FrameType, event: str, value: Any, bad: set[str]) -> bool:
        """Whether what was found since this function began is in none of its variables, or not in what it gives."""
        if (
            self.found is None
            or self._found_at < self._entries[frame]
            or frame.f_code.co_name in COMPREHENSIONS
        ):
            # What a comprehension has made so far is in no variable.
            return False
        return self.prop.holds(value) is False if event == "return" else not bad

    def _find(self, frame: FrameType, line: int) -> None:
        if self.counts is Counts.LASTING and self.found is not None:
            return
        self.found = frame, line
        self._found_at, self._found_when = self._events, time.monotonic()

    def _holding(self, frame: FrameType) -> set[str]:
        return {name for name, each in frame.f_locals.items() if self.prop.holds(each)}

    def _uses_bad(self, frame: FrameType, line: int) -> bool:
        """Whether something that a line reads had the property already."""
        statement = _lambda_body(frame) or statement_at(frame.f_code.co_filename, line)
        if statement is None:
            return False
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id in self._bad[frame]:
                    return True
            elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Load):
                try:
                    if self.prop.holds(look(node, frame)) and not _is_constant(node, frame):
                        self.source = self.source or (frame, node)
                        return True
                except Unknown:
                    if self._is_bad_column(node, frame) or self._is_row(node, frame):
                        return True
        return False

    def _is_bad_column(self, node: ast.Attribute | ast.Subscript, frame: FrameType) -> bool:
        """`table["age"]`, `table.age`: a column that had the property, of a table of which another one is watched."""
        table: Any = frame.f_locals.get(node.value.id) if isinstance(node.value, ast.Name) else None
        key = node.attr if isinstance(node, ast.Attribute) else getattr(node.slice, "value", None)
        if not is_table(table) or key not in table.columns:
            return False
        return bool(self.prop.holds(table[key]))

    def _is_row(self, node: ast.Attribute | ast.Subscript, frame: FrameType) -> bool:
        """`self.table.iloc[i]`: a row has what its table has."""
        match node:
            case ast.Subscript(value=ast.Attribute(value=table, attr="iloc" | "loc")):
                with suppress(Unknown):
                    if is_table(look(table, frame)):
                        self.has_row = self.source is None or self.has_row
                        self.source = self.source or (frame, node)
                        return True
        return False

    def spot(self, path: str) -> tuple[Spot, str | None] | None:
        """The expression that did it, and the name of what it calls. `path` is the leaf's place in the sample."""
        found = self.found or self._mended
        if found is None:
            return None
        frame, line = found
        if (body := _lambda_body(frame)) is not None:
            return Spot.of_node(frame.f_code.co_filename, body), operation_in(body)
        statement = statement_at(frame.f_code.co_filename, line)
        value = getattr(statement, "value", getattr(statement, "iter", None))
        if statement is None or not isinstance(value, ast.expr):
            return None
        value = part_at(value, path) if isinstance(statement, ast.Return) else value
        return Spot.of_node(frame.f_code.co_filename, value), operation_in(value)


def _is_constant(node: ast.Attribute | ast.Subscript, frame: FrameType) -> bool:
    """`np.nan`, `math.inf`: what a module has is not data, and a line that writes it makes it so."""
    with suppress(Unknown):
        return isinstance(node, ast.Attribute) and isinstance(look(node.value, frame), ModuleType)
    return False


def _lambda_body(frame: FrameType) -> ast.expr | None:
    """What a lambda gives: the statement that it stands in, over several lines perhaps, is not what is running."""
    code = frame.f_code
    tree = tree_of(code.co_filename) if code.co_name == "<lambda>" else None
    places = set(code.co_positions()) if tree is not None else set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Lambda):
            body = node.body
            if (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in places:
                return body
    return None


def part_at(node: ast.expr, path: str) -> ast.expr:
    """The expression within a returned tuple or dict that makes one of its leaves: `[0]`, `['rating']`."""
    key = path.removeprefix("[").split("]")[0]
    if isinstance(node, ast.Dict):
        for name, value in zip(node.keys, node.values, strict=True):
            if isinstance(name, ast.Constant) and repr(name.value) == key:
                return value
    if isinstance(node, ast.Tuple | ast.List) and key.isdigit() and int(key) < len(node.elts):
        return node.elts[int(key)]
    return node


OPERATORS = {ast.Div: "div", ast.Mult: "mul", ast.Sub: "sub", ast.Add: "add", ast.Pow: "pow"}
WRAPPERS = frozenset(
    {
        "float",
        "int",
        "float32",
        "float64",
        "tensor",
        "array",
        "asarray",
        "as_tensor",
        "from_numpy",
        "astype",
        "to",
        "Parameter",
    }
)


def operation_in(node: ast.AST) -> str | None:
    """What an expression does, in a word: the function it calls, beneath mere conversions, or its operator."""
    if isinstance(node, ast.BinOp):
        return OPERATORS.get(type(node.op))
    if isinstance(node, ast.Call):
        name = (
            node.func.attr
            if isinstance(node.func, ast.Attribute)
            else getattr(node.func, "id", None)
        )
        if name in WRAPPERS:
            inner = (
                node.args[0]
                if node.args
                else node.func.value
                if isinstance(node.func, ast.Attribute)
                else None
            )
            return operation_in(inner) if inner is not None else name
        return name
    return None
