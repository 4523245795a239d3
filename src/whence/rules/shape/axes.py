"""Who decided the length of an axis: a layer's weight or the data."""

from __future__ import annotations

from enum import Enum, auto

from whence.lineage.properties import WEIGHTED, axis_source, before_change
from whence.rules.operations import RECURRENT
from whence.tape.operations import NORMS
from whence.tape.tape import Call, Value

LONGEST_WAY = 50


class Source(Enum):
    WEIGHT = auto()
    """The size of a layer's weight: features, channels, classes."""
    DATA = auto()
    """The size it had in the data: samples, time, positions."""
    UNKNOWN = auto()


def source_of(value: Value, axis: int) -> tuple[Source, Call | None, int]:
    """What decided the length of an axis, counted from the end; for a layer, its call and axis."""
    for _ in range(LONGEST_WAY):
        call = value.call
        if call is None or call.phase == "data" or (not call.operands and not call.forgotten):
            return Source.DATA, None, axis
        if call.forgotten:
            break
        if call.name in NORMS:
            # A norm requires its own size and keeps it.
            value = call.operands[0]
            continue
        if call.name in RECURRENT & WEIGHTED:
            # Running a recurrent layer without data is slow.
            if value is not call.results[0] or len(value.shape) != len(call.operands[0].shape):
                break
            if axis == -1:
                return Source.WEIGHT, call, axis
            value = call.operands[0]
            continue
        if (before := before_change(call, value)) is not None:
            value = before
            continue
        sources = axis_source(call, value, axis)
        if sources is None or len(sources) > 1:
            break
        if not sources:
            return (
                (Source.WEIGHT, call, axis)
                if call.name in WEIGHTED
                else (Source.UNKNOWN, None, axis)
            )
        value, axis = sources[0]
    return Source.UNKNOWN, None, axis
