"""The course that the making of a sample takes: which lines ran, and what size the variables were of before each.

Runs the program's code: only ever in a child process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from whence.lineage.looking import picture_shape
from whence.source.sites import is_library
from whence.tape.batches import leaves_of

MOST_STEPS = 4_000
MOST_PARTS = 16
COUNT = -1

Size = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """What a variable held: which object, and of what size. A number may be the size of something: it is kept as one."""

    thing: int
    size: Size

    @property
    def is_count(self) -> bool:
        return self.thing == COUNT


@dataclass(slots=True)
class Step:
    """A line, with what the variables held before it ran and the functions that were called while it did."""

    line: int
    before: dict[str, Held]
    """By name, and by name and place: `image`, `sample['image']`."""
    calls: list[Run] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Run:
    """A function of the program's, from its call, or from where it goes on, to its return or yield."""

    code: CodeType
    outer: tuple[Run, int] | None
    """Who called it, in which of its steps."""
    steps: list[Step] = field(default_factory=list)
    returned: dict[str, Held] = field(default_factory=dict)
    """The parts of what it returned."""

    @property
    def end(self) -> int:
        """The step in which it returned."""
        return len(self.steps) - 1


@dataclass(eq=False, slots=True)
class Course:
    runs: list[Run] = field(default_factory=list)
    """Those that nobody else of the program's has called."""
    is_whole: bool = True
    _open: list[tuple[FrameType, Run]] = field(default_factory=list)
    _count: int = 0

    @contextmanager
    def followed(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(before)
            self._open.clear()

    def _entered(self, frame: FrameType, _event: str, _value: Any) -> Any:
        if is_library(frame.f_code.co_filename) or not self.is_whole:
            return None
        outer = self._open[-1][1] if self._open else None
        run = Run(frame.f_code, (outer, outer.end) if outer is not None and outer.steps else None)
        (outer.steps[-1].calls if outer is not None and outer.steps else self.runs).append(run)
        self._open.append((frame, run))
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, value: Any) -> Any:
        self._count += 1
        self.is_whole = self.is_whole and self._count <= MOST_STEPS
        if not self.is_whole:
            return None
        if self._open and self._open[-1][0] is frame:
            run = self._open[-1][1]
            if event == "line":
                run.steps.append(Step(frame.f_lineno, _held(frame.f_locals)))
            elif event == "return":
                leaves = [("", value), *leaves_of(value)]
                run.returned = {
                    path: Held(id(each), size)
                    for path, each in leaves
                    if (size := size_of(each)) is not None
                }
                self._open.pop()
        return self._stepped


def _held(names: dict[str, Any]) -> dict[str, Held]:
    """By name; parts of a small tuple or dict by the name and their place in it."""
    found: dict[str, Held] = {}
    for name, thing in names.items():
        if (each := held(thing)) is not None:
            found[name] = each
        if isinstance(thing, tuple | dict) and len(thing) <= MOST_PARTS:
            for key, part in thing.items() if isinstance(thing, dict) else enumerate(thing):
                if (each := held(part)) is not None:
                    found[f"{name}[{key!r}]"] = each
    return found


def held(thing: Any) -> Held | None:
    if type(thing) is int:
        return Held(COUNT, (thing,)) if thing > 1 else None
    size = size_of(thing)
    return Held(id(thing), size) if size is not None else None


def size_of(thing: Any) -> Size | None:
    """The shape of an array, a tensor, a table or a picture; the length of a list or a dict."""
    if isinstance(thing, list | tuple | dict | set):
        return (len(thing),)
    shape = getattr(thing, "shape", None) if not isinstance(thing, type) else None
    if shape is None:
        return picture_shape(thing)
    return (
        tuple(shape)
        if isinstance(shape, tuple) and all(isinstance(each, int) for each in shape)
        else None
    )
