"""What numpy does in lines of the program, where no sensor sees it: it is seen when they run again, in a child process."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType, ModuleType
from typing import Any

from whence.lineage.lines import operation_in
from whence.lineage.looking import is_array
from whence.lineage.postmortem import evaluated
from whence.lineage.rerunning import Seen, run_again
from whence.source.files import program_files
from whence.source.sites import is_library, variables
from whence.source.spots import Spot
from whence.source.text import enclosing, last_name, statement_at, tree_of

MOST_EVENTS = 20_000
MOST_RESHAPES = 64
PLAIN = (
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Constant,
    ast.Slice,
    ast.Tuple,
    ast.UnaryOp,
    ast.USub,
    ast.expr_context,
)
FRESH = frozenset(
    {
        "normal",
        "standard_normal",
        "rand",
        "randn",
        "random",
        "uniform",
        "integers",
        "randint",
        "arange",
        "linspace",
    }
    | {"zeros", "ones", "empty", "full"}
)
"""What they make has no order that could be lost."""
Nodes = tuple[list[ast.BinOp], list[ast.Call]]


@dataclass(frozen=True, slots=True)
class Wrap:
    spot: Spot
    op: str
    count: int
    share: float
    is_array_first: bool
    """Whether the left operand is an array, and no plain number."""


@dataclass(frozen=True, slots=True)
class Reshape:
    spot: Spot
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(slots=True)
class ArrayWatch:
    """Before a line runs it tries, in wide numbers, the sums and differences of bytes that the line is about to make; and it notes what
    is about to get another shape. Also a tracer, for all lines of something that is called."""

    wraps: Wrap | None = None
    reshapes: list[Reshape] = field(default_factory=list)
    reaches: Callable[[Any], bool] | None = None
    """Whether what comes of a sum is what is looked for: checksums wrap on purpose."""
    _nodes: dict[tuple[str, int], Nodes] = field(default_factory=dict)
    _events: int = 0

    def during(self, ask: Callable[[], Any]) -> None:
        before = sys.gettrace()
        sys.settrace(self._stepped)
        try:
            ask()
        finally:
            sys.settrace(before)

    def _stepped(self, frame: FrameType, event: str, _value: Any) -> Any:
        self._events += 1
        if is_library(frame.f_code.co_filename) or self._events > MOST_EVENTS:
            return None
        if event == "line":
            statement = statement_at(frame.f_code.co_filename, frame.f_lineno)
            if statement is not None:
                self.look(statement, frame)
        return self._stepped

    def look(self, statement: ast.stmt, frame: FrameType) -> None:
        """A statement is about to run."""
        key = frame.f_code.co_filename, statement.lineno
        if key not in self._nodes:
            self._nodes[key] = _sums_in(statement), _reshapes_in(statement)
        sums, reshapes = self._nodes[key]
        for each in sums if self.wraps is None else ():
            with suppress(Exception):
                self.wraps = self.wraps or self._wrapped(each, frame)
        for call in reshapes if len(self.reshapes) < MOST_RESHAPES else ():
            with suppress(Exception):
                self.reshapes += _reshaped(call, frame)

    def _wrapped(self, node: ast.BinOp, frame: FrameType) -> Wrap | None:
        found = _wrap(node, frame)
        if found is None or self.reaches is None:
            return found
        made = evaluated(node, frame)
        return found if self.reaches(made) else None


def sums_of_program() -> Iterator[tuple[str, ast.stmt]]:
    """Statements that may add or subtract arrays, each with its file."""
    yield from _statements(_sums_in)


def reshapes_of_program() -> Iterator[tuple[str, ast.stmt]]:
    """Statements that may give an array three axes or more, each with its file."""
    yield from _statements(_reshapes_in)


def seen_before(
    wanted: list[tuple[str, ast.stmt]],
    frames: list[FrameType],
    reaches: Callable[[Any], bool] | None = None,
) -> ArrayWatch:
    """What these statements do when the program's calls that lead to them are made again. Only ever in a child process."""
    watch = ArrayWatch(reaches=reaches)
    look: Seen = watch.look
    with suppress(Exception):
        run_again(wanted, look, None, frames)
    return watch


def _statements(nodes_in: Callable[[ast.stmt], list[Any]]) -> Iterator[tuple[str, ast.stmt]]:
    for filename in program_files():
        tree = tree_of(filename)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.stmt) and nodes_in(node) and not _is_asked_elsewhere(node):
                yield filename, node


def _is_asked_elsewhere(statement: ast.stmt) -> bool:
    """What makes one sample is asked for samples, and what a model does is on the tape."""
    return getattr(enclosing(statement, ast.FunctionDef), "name", "") in (
        "__getitem__",
        "__getitems__",
        "forward",
    )


def _sums_in(statement: ast.stmt) -> list[ast.BinOp]:
    nodes = ast.walk(statement) if not hasattr(statement, "body") else ()
    return [
        each
        for each in nodes
        if isinstance(each, ast.BinOp)
        and isinstance(each.op, ast.Add | ast.Sub | ast.Mult)
        and _is_plain(each)
    ]


def _is_plain(node: ast.BinOp) -> bool:
    sides = [*ast.walk(node.left), *ast.walk(node.right)]
    both = isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
    return not both and all(isinstance(each, PLAIN) for each in sides)


def _wrap(node: ast.BinOp, frame: FrameType) -> Wrap | None:
    left, right = (_value(each, frame) for each in (node.left, node.right))
    small = [each for each in (left, right) if is_array(each) and str(each.dtype) == "uint8"]
    if not small or any(
        str(getattr(each, "dtype", "uint8")) != "uint8" or isinstance(each, float)
        for each in (left, right)
    ):
        return None
    one, other = (
        each.astype("int64") if hasattr(each, "astype") else each for each in (left, right)
    )
    if not all(hasattr(each, "dtype") or isinstance(each, int) for each in (one, other)):
        return None
    result = (
        one + other
        if isinstance(node.op, ast.Add)
        else one - other
        if isinstance(node.op, ast.Sub)
        else one * other
    )
    outside = (result < 0) | (result > 255)
    count = int(outside.sum())
    spot = Spot.of_node(frame.f_code.co_filename, node)
    share = count / outside.size if count else 0.0
    return Wrap(spot, operation_in(node) or "", count, share, is_array(left)) if count else None


def _value(node: ast.expr, frame: FrameType) -> Any:
    return eval(compile(ast.Expression(node), "<look>", "eval"), frame.f_globals, variables(frame))


def _reshapes_in(statement: ast.stmt) -> list[ast.Call]:
    nodes = ast.walk(statement) if not hasattr(statement, "body") else ()
    calls = [
        each for each in nodes if isinstance(each, ast.Call) and last_name(each.func) == "reshape"
    ]
    return [
        each
        for each in calls
        if isinstance(each.func, ast.Attribute) and each.args and not each.keywords
    ]


def _reshaped(call: ast.Call, frame: FrameType) -> Iterator[Reshape]:
    assert isinstance(call.func, ast.Attribute)
    given, sizes = call.func.value, call.args
    if isinstance(given, ast.Name) and isinstance(evaluated(given, frame), ModuleType):
        given, sizes = sizes[0], sizes[1:]
    if isinstance(given, ast.Call) and last_name(given.func) in FRESH:
        return
    array = evaluated(given, frame)
    if not is_array(array):
        return
    wanted = [evaluated(each, frame) for each in sizes]
    wanted = list(wanted[0]) if len(wanted) == 1 and isinstance(wanted[0], tuple | list) else wanted
    rest = array.size // max(1, math.prod(each for each in wanted if each != -1))
    after = tuple(int(each) if each != -1 else rest for each in wanted)
    if math.prod(after) == array.size:
        yield Reshape(Spot.of_node(frame.f_code.co_filename, call), tuple(array.shape), after)
