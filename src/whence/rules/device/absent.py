"""A device that this machine, or this PyTorch build, does not have."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

import torch
from torch import serialization

from whence.finding import Finding, Severity
from whence.lineage.written import Wanted, written
from whence.rules.telling import failure_finding
from whence.source.definitions import name_in
from whence.source.edits import diff_of, replace_node
from whence.source.files import program_files
from whence.source.handlers import Fate
from whence.source.sites import Site, frames_in, variables
from whence.source.spots import Spot
from whence.source.text import last_name, parent_of, text_of, tree_of
from whence.tape.failed import FailedCall
from whence.tape.tape import flatten

ALWAYS_AVAILABLE = ("cpu", "meta")


def absent_device(failed: FailedCall) -> Finding | None:
    """`.to("cuda")`, `device="cuda:1"` or `.cuda()` without such a device."""
    device, given = next(_missing_devices(failed), (None, None))
    if device is None:
        return None

    def names_device(value: object) -> bool:
        return (
            _named(value) == device
            if isinstance(value, str)
            else type(value) is int and value == given
        )

    constants = list(_constants(names_device))
    only = constants[0] if len(constants) == 1 and not _is_read(failed) else None
    spot = _given(failed, names_device) or only
    is_one_of_several = bool(_count(device))
    return failure_finding(
        failed,
        "device/mismatch",
        verdict=f"{device} was requested, "
        + (
            f"but only {_count(device)} {device.type} device(s) exist"
            if is_one_of_several
            else f"but no {device.type} device is available"
        ),
        spot=spot,
        why=_reason(device),
        fix=f"Use a device index below {_count(device)}."
        if is_one_of_several
        else 'Load with map_location="cpu", then move the model to its device.'
        if _is_read(failed)
        else f'Choose an available device, device = "{device.type}" if '
        f'{_check_text(device)} else "cpu", and move everything with .to(device). '
        f"To train on {device.type}, check the PyTorch build, the driver and the visible devices.",
        patch=None if is_one_of_several or _is_read(failed) else _patch(spot, device, constants),
        severity=Severity.INFO if _has_fallback(failed) else Severity.ERROR,
    )


def _missing_devices(failed: FailedCall) -> Iterator[tuple[torch.device, Any]]:
    """The missing devices that the call's arguments name, or else the torch module that raised."""
    for thing in flatten((failed.args, failed.kwargs)):
        device = (
            thing
            if isinstance(thing, torch.device)
            else _named(thing)
            if isinstance(thing, str)
            else None
        )
        if device is not None and not _is_available(device):
            yield device, thing
    for frame in frames_in(failed.exception.__traceback__):
        module = frame.f_globals.get("__name__", "")
        words = map(variables(frame).get, frame.f_code.co_varnames[: frame.f_code.co_argcount])
        for word in words if module.startswith("torch.") else ():
            device = _named(word) if isinstance(word, str) else None
            if device is not None and not _is_available(device):
                yield device, word
        device = _named(module.removeprefix("torch."))
        if device is not None and not _is_available(device):
            yield device, None
    number = failed.argument(1, "device") if failed.name == "to" else None
    if type(number) is int and not _is_available(torch.device("cuda", number)):
        yield torch.device("cuda", number), number


def _is_read(failed: FailedCall) -> bool:
    """Whether a file names the device: torch.load restores tensors to the device they were on."""
    frames = frames_in(failed.exception.__traceback__)
    return any(each.f_globals.get("__name__") == serialization.__name__ for each in frames)


def _has_fallback(failed: FailedCall) -> bool:
    """Whether the program only probes: a handler names another device, or the `try` ends here."""
    if failed.fate is Fate.UNCAUGHT:
        return False
    return any(map(_handler_names_device, failed.frames)) or any(
        map(_is_last_in_try, failed.frames[:1])
    )


def _handler_names_device(frame: FrameType) -> bool:
    """Whether a handler around the running line names an available device."""
    for attempt, _ in _enclosing_tries(frame):
        words = (
            each.value
            for one in attempt.handlers
            for each in ast.walk(one)
            if isinstance(each, ast.Constant)
        )
        devices = (_named(each) for each in words if isinstance(each, str))
        if any(each is not None and _is_available(each) for each in devices):
            return True
    return False


def _is_last_in_try(frame: FrameType) -> bool:
    attempt, running = next(_enclosing_tries(frame), (None, None))
    return attempt is not None and attempt.body[-1] is running


def _enclosing_tries(frame: FrameType) -> Iterator[tuple[ast.Try, ast.AST]]:
    """Each `try` around the running line, and the statement of its body that runs."""
    child: ast.AST | None = Site.of(frame).node()
    while child is not None and (walker := parent_of(child)) is not None:
        if isinstance(walker, ast.Try) and child in walker.body:
            yield walker, child
        child = walker


def _named(text: str) -> torch.device | None:
    try:
        return torch.device(text)
    except (RuntimeError, ValueError):
        return None


def _module(device: torch.device) -> ModuleType | None:
    found = getattr(torch, device.type, None)
    return found if hasattr(found, "is_available") else None


def _is_available(device: torch.device) -> bool:
    """Whether a device is available; devices of unknown kinds are assumed to be."""
    module = _module(device)
    if device.type in ALWAYS_AVAILABLE or module is None:
        return True
    return bool(module.is_available()) and (device.index or 0) < max(_count(device), 1)


def _count(device: torch.device) -> int:
    module = _module(device)
    if module is None or not module.is_available():
        return 0
    return int(module.device_count()) if hasattr(module, "device_count") else 1


def _check_text(device: torch.device) -> str:
    return f"torch.{device.type}.is_available()"


def _reason(device: torch.device) -> str:
    if _count(device):
        return f"{_count(device)} {device.type} device(s) are visible; indices start at 0."
    if device.type == "cuda" and torch.version.cuda is None and torch.version.hip is None:
        return f"This PyTorch build ({torch.__version__}) has no CUDA support and cannot use a GPU."
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if device.type == "cuda" and hidden is not None:
        return f"PyTorch sees no GPU: CUDA_VISIBLE_DEVICES is {hidden!r}."
    return f"{_check_text(device)} is False: the device or its driver is missing."


def _given(failed: FailedCall, names_device: Wanted) -> Spot | None:
    """Where the device name that the call received is written."""
    node = failed.site.node() if failed.site is not None else None
    if not isinstance(node, ast.Call):
        return None
    for given in (*node.args, *(each.value for each in node.keywords)):
        if (spot := written(failed.call.stack, given, names_device)) is not None:
            return spot
    return None


def _constants(names_device: Wanted) -> Iterator[Spot]:
    """All places where the program names the device without checking that it is available."""
    for filename in program_files():
        for node in ast.walk(tree_of(filename) or ast.Module([], [])):
            if (
                isinstance(node, ast.Constant)
                and names_device(node.value)
                and not _is_question(parent_of(node))
            ):
                yield Spot.of_node(filename, node)


def _is_question(parent: Any) -> bool:
    return isinstance(parent, ast.Compare | ast.IfExp | ast.List | ast.Tuple | ast.Set) or (
        isinstance(parent, ast.Call)
        and last_name(parent.func) in ("startswith", "endswith", "autocast", "GradScaler")
    )


def _patch(spot: Spot | None, device: torch.device, constants: list[Spot]) -> str | None:
    """Make the device conditional, if this is the only line of the program that chooses it."""
    node = spot.node() if spot is not None else None
    if (
        spot is None
        or not isinstance(node, ast.Constant)
        or constants != [spot]
        or _is_moved_by_method(device)
    ):
        return None
    torch_here = name_in(spot.filename, "torch", device.type)
    if torch_here is None:
        return None
    return diff_of(
        replace_node(
            spot.filename,
            node,
            f'{text_of(spot.filename, node)} if {torch_here}.is_available() else "cpu"',
        )
    )


def _is_moved_by_method(device: torch.device) -> bool:
    """Whether `.cuda()` is called anywhere, which ignores the chosen device."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == device.type
        for filename in program_files()
        for node in ast.walk(tree_of(filename) or ast.Module([], []))
    )
