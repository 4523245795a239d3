"""Everything a value was made from."""

from __future__ import annotations

from collections.abc import Iterator

from whence.tape.tape import Call, Value

MOST = 5_000


def ancestors(*values: Value) -> Iterator[Call]:
    """The calls that led to these values, nearest first, each once."""
    pending = [value.call for value in values if value.call is not None]
    seen = set(map(id, pending))
    while pending and len(seen) < MOST:
        pending.sort(key=lambda call: call.number)
        call = pending.pop()
        yield call
        for operand in call.operands:
            if operand.call is not None and id(operand.call) not in seen:
                seen.add(id(operand.call))
                pending.append(operand.call)


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
