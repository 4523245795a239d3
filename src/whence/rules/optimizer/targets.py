"""Networks that a loss takes its targets from."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from whence.ledgers.audit import Audit
from whence.rules.shape.layers import root_of
from whence.tape.scopes import Scope
from whence.tape.slices import BACKWARDS, is_random
from whence.tape.tape import Call

LOSSES = 5
MOST_CALLS = 2_000


def run_without_gradients(audit: Audit) -> Iterator[tuple[Scope, nn.Module, set[int]]]:
    """Outermost modules that recorded steps run without gradients alone, and the numbers of the calls in them."""
    without: dict[int, Scope] = {}
    numbers: dict[int, set[int]] = {}
    with_gradients: set[int] = set()
    for call in audit.tape.calls:
        root = root_of(call)
        module = root.module if root is not None and root.called_from else None
        if root is None or module is None or call.phase != "forward":
            continue
        if call.grad_mode:
            with_gradients.add(id(module))
        else:
            without[id(module)] = root
            numbers.setdefault(id(module), set()).add(call.number)
    for key, scope in without.items():
        if key not in with_gradients and (module := scope.module) is not None:
            yield scope, module, numbers[key]


def gives_targets(audit: Audit, numbers: set[int]) -> bool:
    """Whether the last losses are made from what these calls gave since the last update.

    Numbers count, not choices: an action that was drawn, or an index, is what the network did, and not what it is aimed at. What was
    computed before an update is what the network said then, whatever becomes of its memory.
    """
    losses = [call for call in audit.tape.calls if call.name in BACKWARDS and call.operands][-LOSSES:]
    updates = [call.number for call in audit.tape.calls if call.phase == "optimizer" and call.name == "step"]
    used = [(loss, set(_numbers_behind(loss)) & numbers) for loss in losses]
    fresh = [
        min(found) > max((each for each in updates if each < loss.number), default=-1) for loss, found in used if found
    ]
    return bool(fresh) and all(fresh)


def _numbers_behind(loss: Call) -> Iterator[int]:
    pending, seen = list(loss.operands), set[int]()
    while pending and len(seen) < MOST_CALLS:
        value = pending.pop()
        call = value.call
        if call is None or id(call) in seen or not value.dtype.is_floating_point or is_random(call):
            continue
        seen.add(id(call))
        yield call.number
        pending += call.operands
