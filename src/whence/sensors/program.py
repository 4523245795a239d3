"""Runs the user's program as Python itself would, and sees how it ends."""

from __future__ import annotations

import builtins
import io
import linecache
import os
import runpy
import sys
from dataclasses import dataclass
from types import CodeType, ModuleType, TracebackType
from typing import Any

from whence.source.sites import is_own


class CannotRun(Exception):
    """The program cannot be found or read; the text says what was expected."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is to be run: its code, and how `__main__` looks to it."""

    name: str
    code: CodeType
    argv: list[str]
    path0: str
    names: dict[str, Any]


def script(path: str, args: list[str]) -> Program:
    if not os.path.exists(path):
        raise CannotRun(f"no such script: {path}")
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        raise CannotRun(f"{path} is a directory without a __main__.py; expected a Python script")
    filename = os.path.join(path, "__main__.py") if os.path.isdir(path) else path
    absolute = os.path.abspath(filename)
    try:
        with io.open_code(absolute) as file:
            code = compile(file.read(), absolute, "exec", dont_inherit=True)
    except OSError as error:
        raise CannotRun(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CannotRun(f"{path} is not Python source: {error}") from error
    folder = os.path.abspath(path) if os.path.isdir(path) else os.path.dirname(os.path.realpath(absolute))
    names = {"__file__": absolute, "__cached__": None, "__spec__": None, "__package__": None, "__loader__": None}
    return Program(os.path.splitext(os.path.basename(path.rstrip(os.sep)))[0], code, [path, *args], folder, names)


def module(name: str, args: list[str]) -> Program:
    sys.path.insert(0, os.getcwd())
    try:
        _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]
    except ImportError as error:
        raise CannotRun(f"no module to run called {name}: {error}") from error
    finally:
        del sys.path[0]
    names = {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__spec__": spec,
        "__package__": spec.parent,
        "__loader__": spec.loader,
    }
    return Program(name, code, [spec.origin, *args], os.getcwd(), names)


def command(text: str, args: list[str]) -> Program:
    code = compile(text, "<string>", "exec", dont_inherit=True)
    # Source given on the command line is in no file; this is where tracebacks and Whence look for it.
    linecache.cache["<string>"] = (len(text), None, text.splitlines(keepends=True), "<string>")
    names: dict[str, Any] = {"__spec__": None, "__package__": None, "__loader__": None}
    return Program("command", code, ["-c", *args], "", names)


def run(program: Program) -> None:
    """Run the program as `__main__`. Whatever it raises comes out, without a frame of ours in its traceback."""
    main = ModuleType("__main__")
    main.__dict__.update(program.names, __builtins__=builtins)
    sys.modules["__main__"] = main
    sys.argv[:] = program.argv
    sys.path[0:1] = [program.path0]
    try:
        exec(program.code, main.__dict__)
    except BaseException as exception:
        clean(exception)
        raise


def clean(exception: BaseException, seen: set[int] | None = None) -> None:
    """Take Whence's frames out of the tracebacks of an exception and of those behind it."""
    seen = seen if seen is not None else set()
    if id(exception) in seen:
        return
    seen.add(id(exception))
    exception.__traceback__ = without_own_frames(exception.__traceback__)
    for behind in (exception.__cause__, exception.__context__):
        if behind is not None:
            clean(behind, seen)


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback without Whence's frames, and without those by which torch called Whence."""
    kept: list[TracebackType] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_name == "handle_torch_function" and code.co_filename.endswith(os.path.join("torch", "overrides.py")):
            # `cross_entropy` asks torch.overrides, which asks us, who call `cross_entropy`: once is enough.
            if kept and traceback.tb_next is not None and traceback.tb_next.tb_frame.f_code is kept[-1].tb_frame.f_code:
                kept.pop()
        elif not is_own(code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    rebuilt: TracebackType | None = None
    for each in reversed(kept):
        rebuilt = TracebackType(rebuilt, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return rebuilt
