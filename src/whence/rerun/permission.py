"""Decide whether a child process may be forked, and record what is lost if not.

The program must not notice a fork: no SIGCHLD for its handler, no call of its at-fork callbacks.
The fork must also be safe: a process that uses an accelerator cannot be forked.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import replace
from enum import StrEnum
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType

import torch
from torch.utils import backend_registration

from whence.finding import Finding
from whence.source.at_fork import CALLBACKS
from whence.source.interrupts import handler_of
from whence.source.sites import is_library

SWITCH = "WHENCE_NO_CHILD"
"""An environment variable: 1 switches child processes off."""
ACCELERATORS = ("cuda", "xpu", "mtia", "hpu")
LOADER_HANDLER = os.path.join("torch", "utils", "data", "_utils", "signal_handling.py")
DEEPEST = 4
"""How far a callback is followed through partials, wrappers and closures."""


class Need(StrEnum):
    """What needs a child process, in the report's words if none may be forked."""

    BACKWARD = "a custom backward could not be run again"
    COLLATE = "the collate function could not be called again"
    EXPRESSION = "an expression of the program could not be evaluated again"
    FUNCTION = "a function of the program could not be called again"
    GRAPH = "the tensors saved for backward could not be read"
    HOOKS = "gradient hooks could not be run again"
    ITERATION = "an iteration of the training loop could not be run again"
    ORDER = "the order of the samples could not be drawn again"
    PREPARATION = "the code before training could not be run again"
    SAMPLES = "samples could not be fetched again"
    STEP = "a step with the program's own code could not be replayed"
    STREAM = "the stream of samples could not be read again"
    TRANSFORMED = "a function under torch.func could not be run again"
    UPDATE = "the optimizer step could not be run again"


_forbidden = False
_lost: dict[str, list[Need]] = {}
"""Why no child was forked, and what was lost by that."""
_refusals = 0
_last: dict[tuple[Need, str], int] = {}
"""The number of the last refusal of each kind."""
_judged: dict[int, tuple[object, str | None]] = {}
"""At-fork callbacks by their id, each with itself, so that its id stays unique."""


def can_fork() -> str | None:
    """Return why no child may be forked now, as words to follow "because"; None if one may."""
    checks = (_switched_off, _platform, _accelerator, _child_signal, _at_fork)
    return next((reason for check in checks if (reason := check()) is not None), None)


def forbid_children(*, when: bool) -> None:
    """Fork no child from now on, if the user has chosen that."""
    global _forbidden
    _forbidden = _forbidden or when


def note_loss(need: Need, reason: str) -> None:
    """Record what could not be done without a child, for the report."""
    global _refusals
    _refusals += 1
    _last[need, reason] = _refusals
    known = _lost.setdefault(reason, [])
    if need not in known:
        known.append(need)


def take_losses() -> list[str]:
    """Return one line per reason for what was lost since the last call."""
    lines = [f"{', '.join(losses)}, because {reason}" for reason, losses in _lost.items()]
    _lost.clear()
    return lines


def refusals() -> int:
    """Return how often no child could be forked so far."""
    return _refusals


def with_gap(found: Finding, since: int) -> Finding:
    """State in a finding that its origin is uncertain, if a child was refused since then."""
    gaps = [f"{need}, because {reason}" for (need, reason), when in _last.items() if when > since]
    if not gaps:
        return found
    return replace(found, why=f"{found.why} The origin may be further back: {'; '.join(gaps)}.")


def _switched_off() -> str | None:
    if _forbidden:
        return "forking is switched off (--no-child)"
    if os.environ.get(SWITCH, "") not in ("", "0"):
        return f"forking is switched off ({SWITCH})"
    return None


def _platform() -> str | None:
    if sys.platform == "darwin":
        return "forking is not safe on macOS"
    if not hasattr(os, "register_at_fork") or sys.platform in ("win32", "cygwin"):
        return "this platform cannot fork"
    return None


def _accelerator() -> str | None:
    """Return which accelerator forbids a fork, from PyTorch's Python state only.

    `torch.accelerator` may call the driver. The first call to a driver starts it, and then no
    process can be forked. MPS exists only on macOS, where nothing is forked.
    """
    extra = getattr(backend_registration, "_privateuse1_backend_name", None)
    for name in (*ACCELERATORS, extra):
        device = getattr(torch, name, None) if isinstance(name, str) else None
        is_initialized = getattr(device, "is_initialized", None)
        if callable(is_initialized) and is_initialized():
            return f"an accelerator is in use ({name})"
    return None


def _child_signal() -> str | None:
    """Return why SIGCHLD forbids a fork.

    PyTorch's own handler only checks the workers of its loaders, by their process ids.
    """
    handler = handler_of(signal.SIGCHLD)
    if type(handler) is int and handler == signal.SIG_IGN:
        return "the program ignores SIGCHLD"
    if callable(handler) and not _is_loader_handler(handler):
        return "the program has set a handler for SIGCHLD"
    # The watchdog's own thread receives no signal.
    is_main = threading.get_ident() == threading.main_thread().ident
    if is_main and signal.SIGCHLD in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        return "the program has blocked SIGCHLD"
    return None


def _is_loader_handler(handler: object) -> bool:
    is_torchs = type(handler) is FunctionType and handler.__code__.co_filename.endswith(
        LOADER_HANDLER
    )
    # It calls the handler that was set before it, which its closure holds.
    return is_torchs and _of_program(handler) is None


def _at_fork() -> str | None:
    if CALLBACKS is None:
        return "the at-fork callbacks of this process cannot be listed"
    for each in [callback for callbacks in CALLBACKS for callback in callbacks]:
        if id(each) not in _judged:
            _judged[id(each)] = each, _of_program(each)
        if (name := _judged[id(each)][1]) is not None:
            return f"the program has registered an at-fork callback ({name})"
    return None


def _of_program(thing: object, depth: int = DEEPEST) -> str | None:
    """Return the name of the part of a callback that belongs to the program; None if none does.

    Inspects types and code only, so that no code of the program runs.
    """
    if depth == 0:
        return None
    parts: list[object] = []
    if type(thing) is FunctionType:
        if not is_library(thing.__code__.co_filename):
            return thing.__qualname__
        parts += [thing.__dict__.get("__wrapped__"), *_enclosed(thing)]
    elif type(thing) is MethodType:
        parts.append(thing.__func__)
    elif type(thing) is partial:
        parts += [thing.func, *thing.args, *thing.keywords.values()]
    elif type(thing) is BuiltinMethodType:
        # The method of a lock, say; a function's own object is its module.
        if thing.__self__ is not None and not _is_librarys(thing.__self__):
            return thing.__qualname__
    elif isinstance(thing, type):
        if not is_library(_file_of(thing.__module__)):
            return thing.__qualname__
    elif thing is not None:
        call = vars(type(thing)).get("__call__")
        if call is not None and not is_library(_file_of(type(thing).__module__)):
            return type(thing).__qualname__
        parts.append(call)
    return next((name for part in parts if (name := _of_program(part, depth - 1))), None)


def _enclosed(function: FunctionType) -> list[object]:
    """Return the contents of a function's closure; a cell may still be empty."""
    found: list[object] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return found


def _is_librarys(owner: object) -> bool:
    """Return whether an object without code is a module, or a global variable of a library."""
    if isinstance(owner, ModuleType):
        return True
    modules = [each for each in list(sys.modules.values()) if isinstance(each, ModuleType)]
    return any(
        any(value is owner for value in list(vars(module).values()))
        for module in modules
        if is_library(_file_of(module.__name__))
    )


def _file_of(name: object) -> str:
    """Return the file of a module; one without a file is built in."""
    module = sys.modules.get(name) if isinstance(name, str) else None
    file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    if isinstance(file, str):
        return file
    return "<string>" if name == "__main__" else "<built-in>"
