"""Autograd's graph, read beside the tape: which call made a node, whether what it saved is still there, who changed it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import torch

from whence.tape.beats import Beats
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value, node_of
from whence.torch_internals import SAVED_TENSORS_SHOW_DATA, input_metadata

MOST_NODES = 20_000


def nodes_of(tensor: torch.Tensor) -> Iterator[Any]:
    """The nodes that a tensor hangs on, newest first."""
    return nodes_below(node_of(tensor))


def nodes_below(first: Any) -> Iterator[Any]:
    """A node and those that it hangs on."""
    # Nodes, not their ids: in older versions of torch a node that nobody holds gets a new object each time.
    pending, seen = [first], {first}
    while pending and len(seen) < MOST_NODES:
        node = pending.pop(0)
        if node is None:
            continue
        yield node
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                pending.append(below)


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hang on graphs of the same operations, on tensors of the same sizes."""
    pairs = zip_longest(nodes_of(one), nodes_of(other))
    return all(
        left is not None and right is not None and _form(left) == _form(right)
        for left, right in pairs
    )


def _form(node: Any) -> tuple[Any, ...]:
    return node.name(), *(tuple(each.shape) for each in input_metadata(node))


@dataclass(frozen=True, slots=True)
class Lost:
    """What a node saved for its backward, and can no longer have: a backward has freed it, or it was written to."""

    node: Any
    freed: bool
    memory: torch.Tensor | None = None
    """What stands now where it was written to; None where torch (before 2.7) does not show it."""

    @property
    def number(self) -> int:
        return int(self.node._sequence_nr())


def lost_by(node: Any) -> list[Lost]:
    """What a node would ask for in vain. What the program packs and unpacks itself is left alone: that would run its code."""
    found: list[Lost] = []
    asked = 0
    for name in dir(node):
        if not name.startswith("_raw_saved_"):
            continue
        asked += 1
        try:
            raw = getattr(node, name)
        except RuntimeError:
            found.append(Lost(node, freed=True))
            continue
        saved = raw if isinstance(raw, tuple | list) else (raw,)
        if any(getattr(each, "unpack_hook", None) is not None for each in saved):
            continue
        try:
            getattr(node, name.removeprefix("_raw_" if name == "_raw_saved_tensors" else "_raw"))
        except RuntimeError:
            kept = [getattr(each, "data", None) for each in saved]
            memory = next((each for each in kept if isinstance(each, torch.Tensor)), None)
            found.append(Lost(node, memory is None, memory))
    if found and not SAVED_TENSORS_SHOW_DATA:
        # Backward frees all that a node has saved; who writes to one thing leaves the others.
        found = [Lost(node, len(found) == asked) for _ in found]
    return found


def lost_in(tensor: torch.Tensor) -> list[Lost]:
    """The same for all nodes that a tensor hangs on, in the order in which backward comes to them."""
    found = [each for node in nodes_of(tensor) for each in lost_by(node)]
    return sorted(found, key=lambda each: -each.number)


def freed_before(tensor: torch.Tensor, beats: Beats) -> Lost | None:
    """The first of what an earlier backward has freed, and the one that fails now comes to.

    That, too, frees what it goes through. But who goes through a node goes on to all that is below it, and has freed that
    as well; and where somebody wrote to something, this is what the failure is about.
    """
    lost = lost_in(tensor)
    if not all(each.freed for each in lost):
        return None
    gone = {id(each.node) for each in lost}
    for each in lost:
        saved = (below for below in nodes_below(each.node) if has_saved(below))
        if beats.backward_since(each.number) is not None and all(
            id(below) in gone for below in saved
        ):
            return each
    return None


def has_saved(node: Any) -> bool:
    return any(name.startswith("_raw_saved_") for name in dir(node))


def made_before(tensor: torch.Tensor, limit: int) -> Iterator[tuple[Any, Any]]:
    """Nodes that were there before autograd had counted so far, each with the later one that was put on it."""
    for node in nodes_of(tensor):
        if is_weight_node(node) or node._sequence_nr() < limit:
            continue
        for below, _ in node.next_functions:
            if below is not None and not is_weight_node(below) and below._sequence_nr() < limit:
                yield node, below


def is_weight_node(node: Any) -> bool:
    """Where gradients arrive: it has no place in the order."""
    return hasattr(node, "variable")


def node_name(node: Any) -> str:
    """`addmm` of AddmmBackward0."""
    return str(node.name()).split("::")[-1].partition("Backward")[0].lower()


def call_of(node: Any, failed: FailedCall) -> Call | None:
    """The call that made a node, if it was recorded: autograd numbers nodes in the order they are made."""
    number = node._sequence_nr()
    made = [call for call in failed.tape.calls if call.first_node <= number <= call.sequence]
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
