"""Autograd's graph, read beside the tape: which call made a node, whether what it saved is still there, who changed it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import torch

from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value

MOST_NODES = 20_000


def nodes_of(tensor: torch.Tensor) -> Iterator[Any]:
    """The nodes that a tensor hangs on, newest first."""
    pending, seen = [tensor.grad_fn], {id(tensor.grad_fn)}
    while pending and len(seen) < MOST_NODES:
        node = pending.pop(0)
        if node is None:
            continue
        yield node
        for below, _ in node.next_functions:
            if below is not None and id(below) not in seen:
                seen.add(id(below))
                pending.append(below)


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hang on graphs of the same operations, on tensors of the same sizes."""
    pairs = zip_longest(nodes_of(one), nodes_of(other))
    return all(left is not None and right is not None and _form(left) == _form(right) for left, right in pairs)


def _form(node: Any) -> tuple[Any, ...]:
    return node.name(), *(tuple(each.shape) for each in node._input_metadata)


def is_spoilt(node: Any) -> bool:
    """True if something that the node saved for backward is gone or was changed: reading it raises."""
    for name in dir(node):
        if name.startswith("_saved_") or name == "saved_tensors":
            try:
                getattr(node, name)
            except RuntimeError:
                return True
            except Exception:
                continue
    return False


def call_of(node: Any, failed: FailedCall) -> Call | None:
    """The call that made a node: autograd numbers nodes in the order they are made."""
    try:
        number = node._sequence_nr()
    except (AttributeError, RuntimeError):
        return None
    made = [call for call in failed.tape.calls if call.sequence >= number]
    return min(made, key=lambda call: (call.sequence, call.number)) if made else None


def change_after(call: Call, failed: FailedCall) -> tuple[Call, Value] | None:
    """The first later call that changed, in place, something that this call used or made."""
    memory = {value.storage for value in (*call.operands, *call.outputs) if value.storage}
    for later in failed.tape.calls:
        if later.number <= call.number:
            continue
        for value in later.changed:
            if value.storage in memory:
                return later, value
    return None


def last_backward(failed: FailedCall) -> Call | None:
    """The last backward that freed its graph."""
    return next(
        (call for call in reversed(failed.tape.calls) if call.name == "backward" and not _keeps_graph(call)), None
    )


def _keeps_graph(call: Call) -> bool:
    given = call.kwargs.get("retain_graph", call.args[2] if len(call.args) > 2 else None)
    creates = call.kwargs.get("create_graph", call.args[3] if len(call.args) > 3 else False)
    return bool(creates if given is None else given)
