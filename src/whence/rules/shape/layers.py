"""The shapes through the layers before a failure, as a table and as arithmetic."""

from __future__ import annotations

import math

from torch import nn

from whence.rules.telling import shape_text
from whence.tape.failed import FailedCall
from whence.tape.scopes import Scope
from whence.tape.tape import Call

MOST_ROWS = 14


def root_of(call: Call) -> Scope | None:
    return call.module.root if isinstance(call.module, Scope) else None


def table(failed: FailedCall) -> tuple[str, ...]:
    """The shapes up to the failing call, one row per layer or line that changes the shape."""
    root = root_of(failed.call)
    if root is None:
        return ()
    rows: list[tuple[str, str]] = []
    for call in failed.tape.calls:
        if root_of(call) is not root or not call.outputs or not call.operands:
            continue
        before, after = call.operands[0].shape, call.results[0].shape
        if not before and not after:
            # A layer's counter, such as num_batches_tracked.
            continue
        module = call.module.module if isinstance(call.module, Scope) else None
        if before == after and not (
            module is not None and any(True for _ in nn.Module.parameters(module, recurse=False))
        ):
            continue
        name = _named(failed, module, call)
        rows.append((name, f"{shape_text(before)} -> {shape_text(after)}"))
    module = failed.layer
    first = next(iter(failed.call.operands), None)
    given = shape_text(first.shape) if first is not None else ""
    rows.append((_named(failed, module, failed.call), f"{given} -> fails here"))
    if len(rows) < 2:
        return ()
    rows = rows if len(rows) <= MOST_ROWS else [*rows[:3], ("...", ""), *rows[-(MOST_ROWS - 4) :]]
    width = min(44, max(len(name) for name, _ in rows))
    return tuple(f"{name:<{width}}  {change}".rstrip() for name, change in rows)


def _named(failed: FailedCall, module: nn.Module | None, call: Call) -> str:
    if module is None or not type(module).__module__.startswith("torch.nn"):
        return call.name
    path = failed.modules.path_of(module)
    return f"{path.split('.', 1)[-1]} {type(module).__name__}"


def as_product(size: int, channels: int) -> str | None:
    """`2048 = 128*4*4`: a flattened size as channels times a square image, if it is one."""
    if channels <= 1 or size % channels:
        return None
    side = math.isqrt(size // channels)
    return f"{size} = {channels}*{side}*{side}" if side * side * channels == size else None
