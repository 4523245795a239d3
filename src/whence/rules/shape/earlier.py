"""The same call when it last succeeded, and the batch tensor whose size changed since then."""

from __future__ import annotations

from dataclasses import dataclass

from whence.tape.batches import BatchLeaf
from whence.tape.failed import FailedCall
from whence.tape.tape import Value

LONGEST_WALK = 200


@dataclass(frozen=True, slots=True)
class ChangedLeaf:
    """A tensor of the batch, and the axis whose size differs from an earlier batch."""

    value: Value
    leaf: BatchLeaf
    axis: int
    before: tuple[int, ...]


def changed_leaf(failed: FailedCall, value: Value) -> ChangedLeaf | None:
    """Trace an operand of the failed call, and of its last success, in parallel to the batch."""
    earlier = failed.tape.earlier_at(failed.call)
    if (
        earlier is None
        or len(earlier.operands) != len(failed.call.operands)
        or value not in failed.call.operands
    ):
        return None
    before = earlier.operands[failed.call.operands.index(value)]
    for _ in range(LONGEST_WALK):
        if isinstance(value.leaf, BatchLeaf):
            break
        pairs = _changed_operands(value, before)
        if len(pairs) != 1:
            break
        value, before = pairs[0]
    leaf, known = value.leaf, before.leaf
    if (
        not (isinstance(leaf, BatchLeaf) and isinstance(known, BatchLeaf))
        or leaf.path != known.path
    ):
        return None
    axis = _changed_axis(value.shape, before.shape)
    return (
        ChangedLeaf(value, leaf, axis, before.shape)
        if axis is not None and leaf.batch is not known.batch
        else None
    )


def _changed_operands(value: Value, before: Value) -> list[tuple[Value, Value]]:
    now, then = value.call, before.call
    if now is None or then is None or (now.name, now.site) != (then.name, then.site):
        return []
    pairs = zip(now.operands, then.operands, strict=False)
    return [(one, other) for one, other in pairs if one.shape != other.shape]


def _changed_axis(now: tuple[int, ...], before: tuple[int, ...]) -> int | None:
    """The first changed axis after the batch axis; a different batch size does not count."""
    if len(now) != len(before):
        return -1 if now else None
    changed = (axis - len(now) for axis in range(1, len(now)) if now[axis] != before[axis])
    return next(changed, None)
