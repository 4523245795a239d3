"""Run the user's program as Python itself would, and observe how it ends."""

from __future__ import annotations

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType, TracebackType
from typing import Any

from whence.source.sites import PASSAGE, is_own


class CannotRun(Exception):
    """The program cannot be found or read; the text says what was expected."""


@dataclass(frozen=True, slots=True)
class Program:
    """The program to run.

    `prepare` finds the code after everything else is set up, because it may run the program's code.
    """

    name: str
    argv: list[str]
    path0: str | None
    prepare: Callable[[], tuple[CodeType, dict[str, Any]]]


def script(path: str, args: list[str]) -> Program:
    if not os.path.exists(path):
        raise CannotRun(f"no such script: {path}")
    is_folder = os.path.isdir(path)
    if is_folder and not os.path.exists(os.path.join(path, "__main__.py")):
        raise CannotRun(f"{path} is a directory without a __main__.py; expected a Python script")
    filename = os.path.abspath(os.path.join(path, "__main__.py") if is_folder else path)
    try:
        with io.open_code(filename) as file:
            source = file.read()
    except OSError as error:
        raise CannotRun(f"cannot read {path}: {error.strerror}") from error
    folder = os.path.abspath(path) if is_folder else os.path.dirname(os.path.realpath(filename))

    def prepare() -> tuple[CodeType, dict[str, Any]]:
        names: dict[str, Any] = {
            "__file__": filename,
            "__cached__": None,
            "__spec__": None,
            "__package__": None,
        }
        loader = importlib.machinery.SourceFileLoader("__main__", filename)
        if is_folder:
            spec = importlib.util.spec_from_file_location("__main__", filename, loader=loader)
            names |= {
                "__spec__": spec,
                "__package__": "",
                "__cached__": importlib.util.cache_from_source(filename),
            }
        return compile(source, filename, "exec", dont_inherit=True), {**names, "__loader__": loader}

    name = os.path.splitext(os.path.basename(path.rstrip(os.sep)))[0]
    return Program(
        name, [path, *args], folder if is_folder or not sys.flags.safe_path else None, prepare
    )


def module(name: str, args: list[str]) -> Program:
    _check_module(name)

    def prepare() -> tuple[CodeType, dict[str, Any]]:
        _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]
        sys.argv[0] = spec.origin
        names = {
            "__file__": spec.origin,
            "__cached__": spec.cached,
            "__spec__": spec,
            "__package__": spec.parent,
        }
        return code, {**names, "__loader__": spec.loader}

    return Program(name, ["-m", *args], os.getcwd() if not sys.flags.safe_path else None, prepare)


def _check_module(name: str) -> None:
    """Reject a missing module without importing a package of the program."""
    path: list[str] | None = [os.getcwd(), *sys.path] if not sys.flags.safe_path else list(sys.path)
    found: importlib.machinery.ModuleSpec | None = None
    so_far = ""
    for part in name.split("."):
        so_far = f"{so_far}.{part}".lstrip(".")
        found = importlib.machinery.PathFinder.find_spec(so_far, path)
        if found is None:
            raise CannotRun(f"no module named {name}")
        path = list(found.submodule_search_locations or [])
    is_package = found is not None and found.submodule_search_locations is not None
    if is_package and importlib.machinery.PathFinder.find_spec(f"{name}.__main__", path) is None:
        raise CannotRun(
            f"{name} is a package without a __main__; expected a module that can be run"
        )


def command(text: str, args: list[str]) -> Program:
    def prepare() -> tuple[CodeType, dict[str, Any]]:
        names: dict[str, Any] = {
            "__spec__": None,
            "__package__": None,
            "__loader__": importlib.machinery.BuiltinImporter,
        }
        return compile(text, "<string>", "exec", dont_inherit=True), names

    return Program("command", ["-c", *args], "" if not sys.flags.safe_path else None, prepare)


def prepare(program: Program) -> tuple[CodeType, dict[str, Any]]:
    """Create the program's `__main__`, and return its code and namespace for `exec`."""
    main = ModuleType("__main__")
    # Processes that it spawns know the main module by its other name.
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main
    sys.argv[:] = program.argv
    if program.path0 is not None:
        sys.path[0:1] = [program.path0]
    code, names = program.prepare()
    main.__dict__.update(names, __builtins__=builtins, __annotations__={})
    return code, main.__dict__


class TorchImported(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Call an action once, when the program has imported torch.

    Settings that the program makes before the import still take effect.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._loader: Any = None

    def wait(self) -> None:
        if "torch" in sys.modules:
            self._action()
        else:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch" or path is not None:
            return None
        self.forget()
        spec = importlib.util.find_spec("torch")
        if spec is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._action()

    def forget(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def clean(exception: BaseException, seen: set[int] | None = None) -> None:
    """Remove Whence's frames from the tracebacks of an exception and of its causes."""
    seen = seen if seen is not None else set()
    if id(exception) in seen:
        return
    seen.add(id(exception))
    exception.__traceback__ = without_own_frames(exception.__traceback__)
    for behind in (exception.__cause__, exception.__context__):
        if behind is not None:
            clean(behind, seen)


def without_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback without Whence's frames and the PyTorch frames that called Whence."""
    kept: list[TracebackType] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_name == "handle_torch_function" and code.co_filename.endswith(
            os.path.join("torch", "overrides.py")
        ):
            # `cross_entropy` calls torch.overrides, which calls us, and we call `cross_entropy`:
            # keep one.
            if (
                kept
                and traceback.tb_next is not None
                and traceback.tb_next.tb_frame.f_code is kept[-1].tb_frame.f_code
            ):
                kept.pop()
        elif not _is_ours(code):
            kept.append(traceback)
        traceback = traceback.tb_next
    rebuilt: TracebackType | None = None
    for each in reversed(kept):
        rebuilt = TracebackType(rebuilt, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return rebuilt


def _is_ours(code: CodeType) -> bool:
    """Return whether code is Whence's own, or the machinery that finds a module to run."""
    return (
        is_own(code.co_filename)
        or code.co_name == PASSAGE
        or code is runpy._get_module_details.__code__  # type: ignore[attr-defined]
    )
