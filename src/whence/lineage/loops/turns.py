"""How often the loops around a line turn, as far as that can be seen without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

from whence.lineage.looking import Unknown, look
from whence.source.sites import Site
from whence.source.text import enclosing, last_name

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
TURNING = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
PASSING = frozenset({"enumerate", "tqdm", "iter", "reversed", "sorted", "track"})
RANGES = frozenset({"range", "trange"})


@dataclass(frozen=True, slots=True)
class Turns:
    """A `for` loop. `count` is None where it cannot be known; `loader` is what it goes over, if that is a DataLoader."""

    count: int | None
    loader: Any = None
    every: int = 1
    """The line is reached in every so many turns only: `if (i + 1) % 4 == 0`."""
    at_end: bool = False
    """And in the last turn: `or i + 1 == len(loader)`."""

    @property
    def times(self) -> int | None:
        """How often the line is reached in one run of the loop."""
        return (
            self.count
            if self.count is None
            else -(-self.count // self.every)
            if self.at_end
            else self.count // self.every
        )


@dataclass(frozen=True, slots=True)
class Rounds:
    """The loops around a line, the outermost first. A condition between them and the line makes them say less."""

    loops: tuple[Turns, ...]
    always: bool

    @property
    def total(self) -> int | None:
        """How often the line is reached, if each of its loops runs to its end."""
        found = 1
        for each in self.loops:
            if each.times is None:
                return None
            found *= each.times
        return found if self.loops and self.always else None

    def outer(self, reached: int) -> int | None:
        """The turns of the loop around the loop that the line is in, if the line was reached so often by whole runs of both."""
        pairs = [
            (one.count, other.times)
            for one, other in pairwise(self.loops)
            if one.count is not None and one.count > 1
        ]
        exact = [outer for outer, inner in pairs if inner is not None and outer * inner == reached]
        # What an inner loop goes over cannot always be counted: `for rows in order.split(64)`.
        likely = [outer for outer, inner in pairs if inner is None and reached % outer == 0]
        return next(iter((*exact[::-1], *likely[::-1])), None)


def rounds_of(stack: tuple[Site, ...], frames: list[FrameType]) -> Rounds:
    loops: list[Turns] = []
    always = True
    every, at_end = 1, False
    for number, site in enumerate(stack):
        # What a comprehension goes over is worked out in the function around it.
        inside = site.function in COMPREHENSIONS
        home = stack[min(number + 1, len(stack) - 1)] if inside else site
        frame = next((each for each in frames if each.f_code is home.f_code), None)
        start = site.node() or site.statement()
        if frame is None or start is None:
            continue
        for around in _around(start):
            match around:
                case ast.For(iter=iterated):
                    loops.append(replace(_turns(iterated, frame), every=every, at_end=at_end))
                    every, at_end = 1, False
                case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                    loops += [_turns(each.iter, frame) for each in reversed(around.generators)]
                    always = always and not any(each.ifs for each in around.generators)
                    if inside:
                        break
                case ast.If() if every == 1 and (found := _every(around, frame)) is not None:
                    every, at_end = found
                case ast.If():
                    always = always and _is_main(around)
                case _:
                    loops.append(Turns(None))
        if site.function == "<module>":
            break
    return Rounds(tuple(reversed(loops)), always)


def _around(node: ast.AST) -> Iterator[ast.AST]:
    """The loops and conditions around a line within its function, innermost first."""
    walker: ast.AST | None = node
    while walker is not None and not isinstance(walker, SCOPES):
        walker = enclosing(walker, *TURNING, ast.If, *SCOPES)
        if walker is not None and not isinstance(walker, SCOPES):
            yield walker


def _is_main(node: ast.If) -> bool:
    return "__name__" in ast.unparse(node.test)


def _every(node: ast.If, frame: FrameType) -> tuple[int, bool] | None:
    """`(i + 1) % 4 == 0` is true in every fourth turn; with an `or` behind it in one more at the end."""
    whole, test = isinstance(node.test, ast.Compare), node.test
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) and len(test.values) == 2:
        test = test.values[0]
    match test:
        case ast.Compare(left=ast.BinOp(op=ast.Mod(), right=divisor), ops=[ast.Eq()]):
            try:
                found = look(divisor, frame)
            except Unknown:
                return None
            return (found, not whole) if type(found) is int and found > 0 else None
    return None


def _turns(node: ast.expr, frame: FrameType) -> Turns:
    try:
        if isinstance(node, ast.Call) and last_name(node.func) in RANGES:
            ends = [look(each, frame) for each in node.args]
            return Turns(len(range(*ends)) if all(type(each) is int for each in ends) else None)
        if isinstance(node, ast.Call) and last_name(node.func) in PASSING and node.args:
            return _turns(node.args[0], frame)
        thing = look(node, frame)
        if isinstance(thing, DataLoader):
            return Turns(len(thing), thing)
        return Turns(len(thing) if type(thing) in (list, tuple, dict, range) else None)
    except (Unknown, TypeError, ValueError):
        return Turns(None)
