"""Which axis of a value is known to hold the samples of a batch."""

from __future__ import annotations

from whence.lineage.ancestry import MOVES, ancestors
from whence.rules.operations import CONVOLUTIONS, ELEMENTWISE
from whence.tape.batches import BatchLeaf
from whence.tape.tape import MOST_NUMBERS, Call, Foreign, Value

DRAWS = frozenset({"randperm", "randint", "multinomial", "random_", "randint_like"})


def first_is_batch(value: Value) -> bool:
    """Whether the first axis is known to hold the samples of a batch.

    The rows come from a loader, were picked or labelled at random, or are a convolution's batch.
    """
    rows = value.shape[0]
    pending, seen = [value], {id(value)}
    while pending and len(seen) < 500:
        each = pending.pop(0)
        if isinstance(each.leaf, BatchLeaf):
            indices = each.leaf.batch.indices
            return indices is None or len(indices) == rows
        call = each.call
        if call is None or call.forgotten or call.name in MOVES:
            continue
        if call.name in DRAWS and each.shape == (rows,):
            return True
        if call.name in CONVOLUTIONS and len(each.shape) == len(call.operands[1].shape):
            return True
        if call.name in ("__getitem__", "index_select") and (
            _is_drawn(call, rows) or _is_mixed(call, rows)
        ):
            return True
        for operand in call.operands:
            if call.name in ELEMENTWISE and len(operand.shape) < len(each.shape):
                # Shapes align from the right, so its first axis is another one here.
                continue
            if operand.shape[:1] == (rows,) and id(operand) not in seen:
                seen.add(id(operand))
                pending.append(operand)
    return False


def is_unordered(value: Value) -> bool:
    """Whether the rows are unordered samples; rows in index order may be steps of a sequence."""
    if not first_is_batch(value):
        return False
    operands = (value, *(each for call in ancestors(value) for each in call.operands))
    leaf = next((each.leaf for each in operands if isinstance(each.leaf, BatchLeaf)), None)
    indices = leaf.batch.indices if leaf is not None else None
    if leaf is None:
        return True
    return (
        indices is not None
        and all(type(each) is int for each in indices)
        and [*indices] != sorted(indices)
    )


def _is_drawn(call: Call, rows: int) -> bool:
    picked = [index for index in call.operands[1:] if index.shape == (rows,)]
    return any(made.name in DRAWS for index in picked for made in ancestors(index))


def _is_mixed(call: Call, rows: int) -> bool:
    """Whether the index is an unordered permutation of tables; plain rows may be a text's words."""
    index = call.args[1] if call.name == "__getitem__" and len(call.args) > 1 else None
    if len(call.operands[0].shape) < 3:
        return False
    if isinstance(index, Foreign):
        index = index.numbers
    elif isinstance(index, Value) and index.shape == (rows,) and index.tensor is not None:
        index = index.tensor.tolist() if rows <= MOST_NUMBERS and not index.tensor.is_meta else None
    if (
        not isinstance(index, list | tuple)
        or len(index) != rows
        or not all(type(each) is int for each in index)
    ):
        return False
    return len({*index}) == rows and [*index] not in (sorted(index), sorted(index, reverse=True))
