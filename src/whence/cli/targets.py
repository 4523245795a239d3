"""User objects named on the command line: `module:name` or `path/to/file.py:name`."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from whence.cli.outputs import complain
from whence.config import UsageError
from whence.sensors import program as programs
from whence.source.definitions import find_definition, find_function
from whence.source.spots import Spot
from whence.source.text import tree_of

MOST_NAMES = 8


class UsersFault(Exception):
    """An exception from the user's own code, shown with its traceback."""

    def __init__(self, doing: str, raised: BaseException) -> None:
        super().__init__(doing)
        self.raised = raised

    def show(self, consequence: str) -> None:
        """Print the user's traceback without Whence's frames and the import machinery's."""
        raised = self.raised
        programs.clean(raised)
        where = raised.__traceback__
        while where is not None and "importlib" in where.tb_frame.f_code.co_filename:
            where = where.tb_next
        traceback.print_exception(type(raised), raised, where, file=sys.stderr)
        complain(f"{self} raised {type(raised).__name__}, so {consequence}")


def _is_own(name: str, thing: Any, module: ModuleType) -> bool:
    """Whether the module defines this name itself, rather than importing it."""
    if name.startswith("_") or isinstance(thing, ModuleType):
        return False
    is_code = isinstance(thing, type) or inspect.isroutine(thing)
    return not is_code or getattr(thing, "__module__", "") == module.__name__


def thing_at(target: str, example: str) -> Any:
    """Import the module or file and return the named object.

    Adds the working directory to the path.
    """
    expected = f"expected module:name or path/to/file.py:name, as in: {example}"
    where, colon, name = target.rpartition(":")
    if not colon or not where or not name:
        raise UsageError(f"{expected}; got {target!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = (
        _from_file(where, expected)
        if where.endswith(".py") or os.sep in where
        else _from_name(where, expected)
    )
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            own = [each for each, thing in vars(module).items() if _is_own(each, thing, module)]
            # List the most similar names first: there may be many.
            like = difflib.get_close_matches(part, own, n=3, cutoff=0.5)
            known = list(dict.fromkeys([*like, *own]))
            there = f"; it defines {', '.join(known[:MOST_NAMES])}" if known else ""
            raise UsageError(f"{where} does not define {name!r}{there}")
        found = getattr(found, part)
    return found


def called(function: Callable[[], Any], target: str) -> Any:
    """Call the user's function or class."""
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise UsageError(f"{target} must be callable without arguments: {error}") from None
    except ValueError:
        # Without a signature, rely on the exception that the call raises.
        pass
    try:
        return function()
    except Exception as error:
        raise UsersFault(f"calling {target}", error) from None


def place_of(target: str) -> Spot | None:
    """Return where the target is defined."""
    where, _, name = target.rpartition(":")
    module = sys.modules.get(Path(where).stem if where.endswith(".py") else where)
    filename = getattr(module, "__file__", None)
    tree = tree_of(filename) if filename is not None else None
    if filename is None or tree is None:
        return None
    definition = find_definition(name, tree, None)
    node: ast.AST | None = definition.value if definition is not None else None
    classes = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    node = node or find_function(name, tree) or next(classes, None)
    return Spot.of_node(filename, node) if node is not None else None


def _from_name(name: str, expected: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(
                f"no module named {error.name!r} in {Path.cwd()}; {expected}"
            ) from None
        raise UsersFault(f"importing {name}", error) from None
    except Exception as error:
        raise UsersFault(f"importing {name}", error) from None


def _from_file(path: str, expected: str) -> ModuleType:
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"no file at {path}; {expected}")
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(file.stem, file.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file; {expected}")
    module = importlib.util.module_from_spec(spec)
    # Pickling and copying look classes up by module name.
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsersFault(f"importing {path}", error) from None
    return module
