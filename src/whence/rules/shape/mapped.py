"""Inputs of `vmap` whose mapped axes differ in size."""

from __future__ import annotations

from collections import Counter

import torch

from whence.finding import Finding, Operand
from whence.lineage.properties import HasAxis
from whence.lineage.trail import trace
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.sites import frames_in, variables
from whence.tape.failed import FailedCall
from whence.torch_internals import VMAP_FILE


def mapped(failed: FailedCall) -> Finding | None:
    """A call of `torch.vmap` whose inputs have different sizes along their mapped axes."""
    frames = frames_in(failed.exception.__traceback__)
    if not frames or frames[0].f_code.co_filename != VMAP_FILE:
        return None
    names = variables(frames[0])
    pairs = zip(names.get("flat_args", ()), names.get("flat_in_dims", ()), strict=False)
    given = [
        (each, axis)
        for each, axis in pairs
        if isinstance(each, torch.Tensor) and isinstance(axis, int)
    ]
    sizes = Counter(each.shape[axis] for each, axis in given)
    if len(sizes) < 2:
        return None
    common = sizes.most_common(1)[0][0]
    stray, axis = next((each, axis) for each, axis in given if each.shape[axis] != common)
    place = axis - stray.dim() if axis >= 0 else axis
    elsewhere = [at for at, size in enumerate(stray.shape) if size == common]
    return failure_finding(
        failed,
        "shape/mismatch",
        verdict=f"vmap axis sizes differ: {stray.shape[axis]} for {shape_text(stray.shape)}, "
        f"{common} for the other inputs",
        trail=trace(failed.value(stray), HasAxis(place, stray.shape[axis]), failed),
        why=f"in_dims selects axis {axis} of {shape_text(stray.shape)}, of size "
        f"{stray.shape[axis]}. All mapped axes must have the same size.",
        fix=f"Move axis {elsewhere[0]}, of size {common}, to the front, or pass "
        f"in_dims={elsewhere[0]} for this input."
        if elsewhere
        else f"Create this input with size {common} along the mapped axis, or pass in_dims=None "
        "if all calls share it.",
        operands=(Operand("mapped", describe(stray)),),
    )
