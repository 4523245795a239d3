"""Values whose shape does not fit a torch.distributions object."""

from __future__ import annotations

import torch
from torch.distributions import Distribution

from whence.finding import Finding, Operand
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.sites import frames_in, variables
from whence.tape.failed import FailedCall
from whence.torch_internals import validate_sample


def of_distribution(failed: FailedCall) -> Finding | None:
    """`log_prob` or `cdf` of a value that does not broadcast with the distribution."""
    frames = frames_in(failed.exception.__traceback__)
    # The constructor of a distribution validates values, not shapes.
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
    return failure_finding(
        failed,
        "shape/mismatch",
        verdict=f"{name} has shape {shape_text(wanted)}, got a value of {shape_text(value.shape)}",
        why="Shapes are aligned from the right; sizes must be equal or 1. The distribution's shape "
        "comes from its parameters.",
        fix="Add the missing axis of size 1 to the value: value.unsqueeze(dim)."
        if missing > 0
        else f"Make the shapes broadcast: decide which axis of the {name} each axis of the value "
        "corresponds to.",
        operands=(Operand("value", describe(value)), Operand(name, shape_text(wanted))),
    )


def _can_broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(one), reversed(other), strict=False))
