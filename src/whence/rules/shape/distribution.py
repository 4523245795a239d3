"""Samples that do not fit a distribution of torch's own."""

from __future__ import annotations

import torch
from torch.distributions import Distribution

from whence.finding import Finding, Operand
from whence.rules.telling import describe, shape_text, tell
from whence.source.sites import frames_in, variables
from whence.tape.failed import FailedCall
from whence.torch_internals import validate_sample


def of_distribution(failed: FailedCall) -> Finding | None:
    """`log_prob`, or `cdf`, of a tensor whose axes do not meet those of the distribution: it says so before any torch call."""
    frames = frames_in(failed.exception.__traceback__)
    # Its constructor checks values, of which the shape is right by then.
    if not frames or frames[0].f_code is not getattr(validate_sample, "__code__", None):
        return None
    names = variables(frames[0])
    kind, value = names.get("self"), names.get("value")
    if not isinstance(kind, Distribution) or not isinstance(value, torch.Tensor):
        return None
    wanted = tuple(kind.batch_shape + kind.event_shape)
    if _can_broadcast(tuple(value.shape), wanted):
        return None
    name = type(kind).__name__
    missing = len(wanted) - value.dim()
    return tell(
        failed,
        "shape/mismatch",
        verdict=f"this {name} is of shape {shape_text(wanted)}, and cannot take {shape_text(value.shape)}",
        why="Axes line up from the right, and must be equal there, or 1. Its own axes are those of its parameters.",
        fix=f"Give what is measured an axis of 1 where the {name} has one that it lacks: value.unsqueeze(dim)."
        if missing > 0
        else f"Bring both to one shape: look which axis of the {name} is meant to meet which of the value.",
        operands=(Operand("value", describe(value)), Operand(name, shape_text(wanted))),
    )


def _can_broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(one), reversed(other), strict=False))
