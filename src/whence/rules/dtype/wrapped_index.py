"""Indices that overflowed a narrow integer dtype and are now out of range."""

from __future__ import annotations

import ast
from typing import Any

import torch

from whence.finding import Confidence, Finding, Operand
from whence.lineage.narrowing import Wrapped, casts_of_program, may_be_wrapped, narrow_type
from whence.lineage.properties import HasElement
from whence.lineage.trail import Birth, Trail, trace
from whence.rules.dtype.operands import cast_patch
from whence.rules.indexing import Beyond, out_of_range
from whence.rules.rule import Rank, rule
from whence.rules.telling import describe, dtype_name, failure_finding
from whence.source.spots import Spot
from whence.tape.failed import FailedCall


@rule("dtype/narrowed", Rank.CAUSE)
def narrowed(failed: FailedCall) -> Finding | None:
    """A cast changed values.

    What happened
        Values were cast to a dtype that cannot hold them: ids above 32767 in int16 become negative,
        and an embedding or a loss then finds an index out of range.
    Why it matters
        The lookup raises, but the cast is the cause. It often ran much earlier, and its result was
        stored and read back as a wider dtype.
    How it is detected
        The wrong index is traced to a cast whose input had the value plus or minus the range of the
        dtype: over PyTorch's calls, through NumPy's in the source, or through a file from the line
        that reads it to the line that writes it. Or the program has only one cast that could have
        made such a value.
    How to fix it
        Use a wider dtype at the cast.
    When it stays silent
        Casts that kept every value. A value that would be out of range without the cast too. If the
        input of the cast is gone: -1, -100 and other sentinel values, and values that the program
        writes as literals.
    Cost
        None until a call raises.
    """
    found = out_of_range(failed)
    if found is None:
        return None
    cast = _cast_of_torch(failed, found.index, found.value)
    if cast is None:
        return _cast_elsewhere(failed, found)
    call, original = cast
    spot = Spot.of_site(call.site) if call.site is not None else None
    narrow = dtype_name(call.outputs[0].dtype)
    return _report_cast(
        failed,
        found,
        original,
        narrow,
        Trail(Birth.CALL, spot),
        Operand("before", describe(call.operands[0])),
    )


def _cast_elsewhere(failed: FailedCall, found: Beyond) -> Finding | None:
    """A NumPy cast, or one before a file; its input is gone, so only its dtype is evidence."""
    if not may_be_wrapped(found.value, found.size):
        return None
    prop = Wrapped(found.value, found.place, size=found.size)
    trail = trace(failed.value(found.index), prop, failed)
    node = trail.spot.node() if trail.spot is not None else None
    if node is None or prop.original(node) is None:
        # The trace is lost, but a single such cast in the program is the likely origin.
        casts = [each for each in casts_of_program() if prop.original(each[1]) is not None]
        filename, node = casts[0] if len(casts) == 1 else ("", None)
        trail = (
            Trail(Birth.SOURCE, Spot.of_node(filename, node), trail.hops)
            if node is not None
            else trail
        )
    original = prop.original(node) if node is not None else None
    if original is None or not isinstance(node, ast.Call):
        return None
    return _report_cast(failed, found, original, narrow_type(node), trail)


def _report_cast(
    failed: FailedCall,
    found: Beyond,
    original: int,
    narrow: str,
    trail: Trail,
    before: Operand | None = None,
) -> Finding | None:
    limits = torch.iinfo(getattr(torch, narrow))
    seen = before is not None
    return failure_finding(
        failed,
        "dtype/narrowed",
        verdict=f"{original} became {found.value} in a cast to {narrow}, out of range for "
        f"{failed.name}"
        if seen
        else f"index {found.value} is out of range for {failed.name}: probably {original} cast to "
        f"{narrow}",
        trail=trail,
        spot=trail.spot if seen else None,
        why=f"{narrow} holds {limits.min} to {limits.max}; {original} wraps around to "
        f"{found.value}. The table has {found.size} rows.",
        fix="Use int32 or int64 at the cast.",
        patch=cast_patch(trail, torch.int64),
        confidence=Confidence.PROVEN if seen else Confidence.LIKELY,
        operands=(
            *([before] if before is not None else []),
            Operand("index", describe(found.index)),
        ),
    )


def _cast_of_torch(failed: FailedCall, index: torch.Tensor, value: int) -> tuple[Any, int] | None:
    """The narrowing cast on the way to an index, and the value before it."""
    current = failed.value(index)
    prop = HasElement(value)
    for _ in range(200):
        call = current.call
        if call is None or not call.operands:
            return None
        source = call.operands[0]
        narrower = (
            not source.dtype.is_floating_point and source.dtype.itemsize > current.dtype.itemsize
        )
        if call.name in ("to", "short", "char", "byte", "int", "type") and narrower:
            lost = 2 ** (8 * current.dtype.itemsize)
            tensor = source.tensor
            original = next(
                (
                    each
                    for each in (value + lost, value - lost)
                    if tensor is None or bool((tensor == each).any())
                ),
                None,
            )
            contains = tensor is not None and bool((tensor == value).any())
            return (call, original) if original is not None and not contains else None
        carried = prop.carrier(call, current)
        if carried is None:
            return None
        current = carried[0]
    return None
