"""Sites: points in the user's program, cheap to record and resolved only on demand."""

from __future__ import annotations

import ast
import os
import site as site_packages
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import executing

from whence.finding import Span
from whence.source.frame_locals import locals_of

OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
RUNNER = os.path.join(OWN_FOLDER, "cli", "__init__.py")
"""The file that runs a program: frames outside of it do not belong to the program."""
OWN_PROGRAMS = OWN_FOLDER + "cases" + os.sep
DEEPEST_STACK = 12
MOST_STACKS = 2048
COMPILED = (".pyx", ".pxd", ".pxi")
PASSAGE = "<passed on by whence>"
"""The name of functions that pass a call on with the caller's file name; not program code."""


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= set(site_packages.getsitepackages()) | {site_packages.getusersitepackages()}
    folders |= {os.path.dirname(os.__file__)}
    return tuple(
        {os.path.realpath(folder) + os.sep for folder in folders}
        | {folder + os.sep for folder in folders}
    )


LIBRARY_FOLDERS = _library_folders()
PACKAGE_FOLDERS = tuple(
    os.path.realpath(each) + os.sep
    for each in {
        *(sysconfig.get_paths()[key] for key in ("purelib", "platlib")),
        *site_packages.getsitepackages(),
        site_packages.getusersitepackages(),
    }
)
TORCHS = ("torch", "functorch")


@cache
def is_library(filename: str) -> bool:
    """Return whether a file is the standard library, an installed package, or Whence itself."""
    if filename.startswith("<"):
        return not filename.startswith(("<string>", "<stdin>", "<ipython"))
    if filename.endswith(COMPILED) and not os.path.exists(filename):
        # Cython extensions name their source by its path on the machine that built them.
        return True
    path = os.path.abspath(filename)
    if path.startswith(OWN_PROGRAMS):
        return False
    if path.startswith((OWN_FOLDER, *LIBRARY_FOLDERS)):
        # Nearly all library files match here: links are followed only for the others.
        return True
    return os.path.realpath(path).startswith(LIBRARY_FOLDERS) or _packages_of(path) is not None


@cache
def is_foreign(filename: str) -> bool:
    """Return whether a file belongs to an installed package other than torch.

    A line that calls into it does not show what happens there.
    """
    path = os.path.realpath(filename)
    folder = next(
        (each for each in PACKAGE_FOLDERS if path.startswith(each)), None
    ) or _packages_of(path)
    return (
        folder is not None
        and path[len(folder) :].split(os.sep)[0] not in TORCHS
        and not is_own(filename)
    )


def _packages_of(path: str) -> str | None:
    """Return the package folder of a file that only `sys.path` reveals (`pip install --target`)."""
    folders = (
        os.path.abspath(each) + os.sep for each in sys.path if isinstance(each, str) and each
    )
    within = (each for each in folders if path.startswith(each))
    return next(
        (each for each in within if path[len(each) :].split(os.sep)[0] in _installed_in(each)), None
    )


@cache
def _installed_in(folder: str) -> frozenset[str]:
    """Return the files and folders that installers have recorded there.

    The program may be in the same folder.
    """
    records = Path(folder).glob("*.dist-info/RECORD")
    with suppress(OSError):
        return frozenset(
            line.split("/")[0].split(",")[0]
            for each in records
            for line in each.read_text(errors="replace").splitlines()
        )
    return frozenset()


def is_own(filename: str) -> bool:
    """Return whether a file is Whence's own code; the programs of `whence demo` are not."""
    return filename.startswith(OWN_FOLDER) and not filename.startswith(OWN_PROGRAMS)


@dataclass(frozen=True, slots=True)
class Site:
    """A point in a code object.

    It has the attributes of a frame that `executing` reads, but keeps no local variable alive.
    """

    f_code: CodeType
    f_lasti: int
    f_lineno: int
    f_globals: dict[str, Any] = field(repr=False)
    is_indirect: bool = False
    """A library other than torch is between this line and the event: the call on this line is not
    the event."""

    @classmethod
    def of(cls, frame: FrameType, *, is_indirect: bool = False) -> Site:
        return cls(frame.f_code, frame.f_lasti, frame.f_lineno, frame.f_globals, is_indirect)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Site)
            and self.f_code is other.f_code
            and self.f_lasti == other.f_lasti
        )

    def __hash__(self) -> int:
        return hash((id(self.f_code), self.f_lasti))

    @property
    def filename(self) -> str:
        return self.f_code.co_filename

    @property
    def function(self) -> str:
        return self.f_code.co_name

    def span(self) -> Span:
        """The columns of the expression that was running, from the compiler's position table."""
        line, end_line, column, end_column = next(
            islice(self.f_code.co_positions(), self.f_lasti // 2, None)
        )
        if line is None or end_line is None or column is None or end_column is None:
            return Span(self.f_lineno, 0, self.f_lineno, 0)
        return Span(line, column, end_line, end_column)

    def node(self) -> ast.AST | None:
        """Return the syntax node that was running, or None if it is not certain."""
        try:
            found = executing.Source.executing(self).node  # type: ignore[arg-type]
        except Exception:
            return None
        return found if isinstance(found, ast.AST) else None

    def statement(self) -> ast.stmt | None:
        try:
            statements = executing.Source.executing(self).statements  # type: ignore[arg-type]
        except Exception:
            return None
        # Several on one line, `def f(x): return g(x)`: the innermost.
        return (
            max(statements, key=lambda each: (each.lineno, each.col_offset)) if statements else None
        )


def variables(frame: FrameType) -> dict[str, Any]:
    """Return the current local variables of a frame."""
    return locals_of(frame)


def variable(frame: FrameType, name: str) -> Any:
    """Return the current value of one local variable of a frame."""
    return locals_of(frame).get(name)


def frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """Return the frames of the program from here outwards."""
    while frame is not None and frame.f_code.co_filename != RUNNER:
        if frame.f_code.co_name != PASSAGE:
            yield frame
        frame = frame.f_back


def frames_outside(exception: BaseException) -> list[FrameType]:
    """Return the live frames that a handled exception has yet to pass, innermost first."""
    reached = exception.__traceback__.tb_frame if exception.__traceback__ is not None else None
    frames = frames_from(sys._getframe(1))
    for frame in frames:
        if frame is reached:
            break
    return list(frames)


def frames_in(traceback: TracebackType | None) -> list[FrameType]:
    """Return the frames that an exception has passed through, innermost first."""
    found: list[FrameType] = []
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name != PASSAGE:
            found.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return found[::-1]


def sites_in(traceback: TracebackType | None) -> list[Site]:
    """Return the user's sites that an exception has passed through, innermost first."""
    found: list[Site] = []
    while traceback is not None:
        frame = traceback.tb_frame
        if not is_library(frame.f_code.co_filename) and frame.f_code.co_name != PASSAGE:
            found.append(
                Site(frame.f_code, traceback.tb_lasti, traceback.tb_lineno, frame.f_globals)
            )
        traceback = traceback.tb_next
    return found[::-1]


def stack_of(exception: BaseException) -> tuple[Site, ...]:
    """Return the user's sites that an exception has passed or has yet to pass, innermost first."""
    outer = frames_outside(exception)
    return (*sites_in(exception.__traceback__), *user_stack(outer[0] if outer else None))


def user_stack(frame: FrameType | None) -> tuple[Site, ...]:
    """Return the sites of the user's own code that are running now, innermost first."""
    found: list[Site] = []
    foreign = False
    while frame is not None and len(found) < DEEPEST_STACK:
        filename = frame.f_code.co_filename
        if frame.f_code.co_name == PASSAGE:
            pass
        elif not is_library(filename):
            found.append(Site.of(frame, is_indirect=foreign and not found))
        elif filename == RUNNER:
            break
        foreign = foreign or is_foreign(filename)
        frame = frame.f_back
    return tuple(found)


class Stacks:
    """Cache of stacks: a program repeats them while it trains, so each is built once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[Site, ...]] = {}

    def of(self, frame: FrameType | None) -> tuple[Site, ...]:
        """Return the same as `user_stack`."""
        frames: list[FrameType] = []
        key: list[int] = []
        foreign = False
        while frame is not None and len(frames) < DEEPEST_STACK:
            code = frame.f_code
            if code.co_name == PASSAGE:
                pass
            elif not is_library(code.co_filename):
                frames.append(frame)
                # The sites keep the code and the globals alive, so their identities stay unique.
                key += (id(code), frame.f_lasti, id(frame.f_globals))
            elif code.co_filename == RUNNER:
                break
            elif not frames:
                foreign = foreign or is_foreign(code.co_filename)
            frame = frame.f_back
        numbers = (foreign, *key)
        stack = self._known.get(numbers)
        if stack is None:
            if len(self._known) >= MOST_STACKS:
                self._known.clear()
            stack = self._known[numbers] = tuple(
                Site.of(each, is_indirect=foreign and each is frames[0]) for each in frames
            )
        return stack


def user_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the live frames of the user's own code, innermost first."""
    return [each for each in frames_from(frame) if not is_library(each.f_code.co_filename)]


def caller_frame(depth: int = 1) -> FrameType:
    return sys._getframe(depth + 1)
