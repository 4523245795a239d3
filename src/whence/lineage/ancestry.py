"""Everything a value was made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush

from whence.tape.slices import BACKWARDS
from whence.tape.tape import Call, Value

MOST = 5_000


def ancestors(*values: Value) -> Iterator[Call]:
    """The calls that led to these values, nearest first, each once."""
    pending: list[tuple[int, int, Call]] = []
    seen: set[int] = set()

    def add(values: Iterable[Value]) -> None:
        for value in values:
            if value.call is not None and id(value.call) not in seen:
                seen.add(id(value.call))
                heappush(pending, (-value.call.number, len(seen), value.call))

    add(values)
    while pending and len(seen) < MOST:
        call = heappop(pending)[2]
        yield call
        add(call.operands)


KEEPS = frozenset(
    {
        "detach",
        "detach_",
        "clone",
        "to",
        "contiguous",
        "__getitem__",
        "requires_grad_",
        "data.__get__",
        "Variable",
    }
)


def origin_call(value: Value) -> Call | None:
    """The call that made a value, past those that only copy or cut it."""
    call = value.call
    while (
        call is not None
        and call.name in KEEPS
        and call.operands
        and call.operands[0].call is not None
    ):
        call = call.operands[0].call
    return call


def sources(value: Value) -> set[int]:
    """Identities of the values without a call that a value was made from, and of all values on the way."""
    found: set[int] = {id(value)}
    for call in ancestors(value):
        found |= {id(operand) for operand in call.operands}
    return found


def have_common_source(one: Value, other: Value) -> bool:
    """True if both were computed from the same data, as the two arms of a skip connection are. Weights do not count."""
    shared = sources(one) & sources(other)
    if not shared:
        return False
    weights = {
        id(operand)
        for value in (one, other)
        for call in ancestors(value)
        for operand in call.operands
        if operand.requires_grad and operand.call is None
    }
    return bool(shared - weights)


MOVES = frozenset(
    {
        "transpose",
        "permute",
        "movedim",
        "swapaxes",
        "T.__get__",
        "mT.__get__",
        "t",
        "moveaxis",
        "swapdims",
    }
)


def last_move(value: Value) -> Call | None:
    """The nearest call that put another axis where this one is, if nothing but elementwise calls came after it."""
    current: Value | None = value
    for _ in range(50):
        call = current.call if current is not None else None
        if call is None or not call.operands:
            return None
        if call.name in MOVES:
            return call
        same = (
            [operand for operand in call.operands if operand.shape == call.outputs[0].shape]
            if call.outputs
            else []
        )
        moved = [
            operand.call
            for operand in same
            if operand.call is not None and operand.call.name in MOVES
        ]
        if moved:
            return moved[0]
        current = same[0] if same else None
    return None


def behind_losses(calls: Sequence[Call]) -> set[int]:
    """Numbers of the calls that some loss was made from."""
    wanted: set[int] = set()
    found: set[int] = set()
    for call in reversed(calls):
        if call.name in BACKWARDS or any(id(value) in wanted for value in call.outputs):
            found.add(call.number)
            # Running statistics carry something from pass to pass that is no result.
            skipped = call.changed if call.name == "batch_norm" else ()
            wanted.update(id(value) for value in call.operands if value not in skipped)
    return found
