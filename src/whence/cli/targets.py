"""Things of the user's that are named on the command line: `module:name`, or `path/to/file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from whence.config import UsageError
from whence.source.definitions import find_definition, find_function
from whence.source.spots import Spot
from whence.source.text import tree_of

EXPECTED = "expected module:name or path/to/file.py:name, such as train:loader"


def found_at(target: str) -> Any:
    """The thing itself; what a function without arguments gives, where the name is that of one."""
    where, colon, name = target.rpartition(":")
    if not colon or not where or not name:
        raise UsageError(f"{EXPECTED}; got {target!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = _from_file(where) if where.endswith(".py") or os.sep in where else _from_name(where)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = [each for each in vars(module) if not each.startswith("_")]
            raise UsageError(f"{where} has no {name!r}; it has {', '.join(public[:8])}")
        found = getattr(found, part)
    if inspect.isfunction(found):
        try:
            return found()
        except Exception as error:
            raise _users_fault(f"calling {target}", error) from None
    return found


def place_of(target: str) -> Spot | None:
    """Where a thing that was found is defined."""
    where, _, name = target.rpartition(":")
    module = sys.modules.get(Path(where).stem if where.endswith(".py") else where)
    filename = getattr(module, "__file__", None)
    tree = tree_of(filename) if filename is not None else None
    if filename is None or tree is None:
        return None
    definition = find_definition(name, tree, None)
    node = definition.value if definition is not None and definition.value is not None else find_function(name, tree)
    return Spot.of_node(filename, node) if node is not None else None


def _from_name(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(f"no module is called {error.name!r} in {Path.cwd()}; {EXPECTED}") from None
        raise _users_fault(f"importing {name}", error) from None
    except Exception as error:
        raise _users_fault(f"importing {name}", error) from None


def _from_file(path: str) -> ModuleType:
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"no file at {path}; {EXPECTED}")
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(file.stem, file.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file; {EXPECTED}")
    module = importlib.util.module_from_spec(spec)
    # Classes must be found by their module's name when they are copied, or sent to a worker.
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _users_fault(f"importing {path}", error) from None
    return module


def _users_fault(doing: str, raised: Exception) -> UsageError:
    """The user's own code raised: shown as it is, from its own first frame on."""
    shown = raised.__traceback__
    while (
        shown is not None
        and shown.tb_next is not None
        and shown.tb_frame.f_code.co_filename.startswith(("<frozen", __file__))
    ):
        shown = shown.tb_next
    text = "".join(traceback.format_exception(type(raised), raised, shown)).rstrip()
    return UsageError(f"{doing} raised\n{text}")
