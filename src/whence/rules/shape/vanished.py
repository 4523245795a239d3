"""A pool or convolution has a window larger than its input.

What happened
    A kernel is larger than the remaining image: the input is too small for the depth of the
    network.
Why it matters
    PyTorch's message names one layer; the finding shows the size after each layer.
How it is detected
    The window is compared with the padded size of the input on each axis. The layers before it are
    listed with their sizes.
How to fix it
    Use larger inputs, fewer downsampling layers, padding, or an adaptive pool.
When it stays silent
    If the window fits.
Cost
    None until a call raises.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.lineage.properties import HasAxis
from whence.lineage.trail import trace
from whence.rules.operations import CONVOLUTIONS
from whence.rules.rule import rule
from whence.rules.shape.layers import table
from whence.rules.telling import describe, failure_finding, layer_text, shape_text
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.tape import Call


@rule("shape/vanished")
def vanished(failed: FailedCall) -> Finding | None:
    given = failed.argument(0, "input")
    window = _window(failed, given) if isinstance(given, torch.Tensor) else None
    if window is None or not isinstance(given, torch.Tensor):
        return None
    needs, has = window
    layer, scope = failed.layer, failed.scope
    path = failed.modules.path_of(layer) if layer is not None else failed.name
    parent = scope.parent.module if scope is not None and scope.parent is not None else None
    stack = (
        failed.modules.built_at(layer)
        if layer is not None and isinstance(parent, nn.Sequential)
        else ()
    )
    trail = None
    emptied = _emptied_by(failed, given)
    if emptied is not None:
        return _report_empty(failed, emptied, path, given)
    if failed.tape.earlier_at(failed.call) is not None:
        # The call succeeded before, so the data are smaller now.
        trail, stack = trace(failed.value(given), HasAxis(-1, given.shape[-1]), failed), ()
    return failure_finding(
        failed,
        "shape/vanished",
        verdict=f"{path} has a window of {needs}, its input has size {has}",
        trail=trail,
        spot=Spot.of_site(stack[0]) if stack else None,
        why=f"{layer_text(layer, path) if layer is not None else failed.name} received "
        f"{shape_text(given.shape)}, which is smaller than its window.",
        fix="Use larger inputs, downsample less often, add padding, or use an adaptive pool.",
        operands=(Operand("input", describe(given)),),
        table=table(failed),
    )


def _emptied_by(failed: FailedCall, given: torch.Tensor) -> Call | None:
    """The slice that emptied a non-empty tensor."""
    value = failed.value(given)
    while not value.numel and value.call is not None and value.call.operands:
        call, before = value.call, value.call.operands[0]
        if before.numel:
            return (
                call if call.name in ("__getitem__", "narrow") and call.site is not None else None
            )
        value = before
    return None


def _report_empty(failed: FailedCall, call: Call, path: str, given: torch.Tensor) -> Finding | None:
    assert call.site is not None
    before, after = (shape_text(each.shape) for each in (call.operands[0], call.outputs[0]))
    return failure_finding(
        failed,
        "shape/vanished",
        verdict=f"the input of {path} is empty: a slice turned {before} into {after}",
        spot=Spot.of_site(call.site),
        why="A slice whose end is not after its start is empty. The end -n with n = 0 means 0, the "
        "start of the axis.",
        fix="Slice only if n > 0 (x if n == 0 else x[..., :-n]), or give the end explicitly: "
        "x[..., :x.shape[-1] - n].",
        operands=(Operand("input", describe(given)),),
        table=table(failed),
    )


def _window(failed: FailedCall, given: torch.Tensor) -> tuple[int, int] | None:
    """Window and remaining size on the first axis where the window is larger."""
    if failed.name in CONVOLUTIONS and "transpose" not in failed.name:
        weight = failed.argument(1, "weight")
        if not isinstance(weight, torch.Tensor) or isinstance(failed.argument(4, "padding"), str):
            return None
        kernel, padding, dilation = (
            list(weight.shape[2:]),
            failed.argument(4, "padding"),
            failed.argument(5, "dilation"),
        )
    elif "pool" in failed.name and "adaptive" not in failed.name:
        kernel, padding, dilation = (
            failed.argument(1, "kernel_size"),
            failed.argument(3, "padding"),
            1,
        )
        if "max" in failed.name:
            dilation = failed.argument(4, "dilation")
    else:
        return None
    dims = (
        len(kernel)
        if isinstance(kernel, tuple | list)
        else int(failed.name[-2])
        if failed.name[-2].isdigit()
        else 2
    )
    for at in range(dims):
        size = given.shape[at - dims] if given.dim() >= dims else 0
        reach = _each(dilation, at, 1) * (_each(kernel, at, 1) - 1) + 1
        if reach > size + 2 * _each(padding, at, 0):
            return reach, size
        stride = _each(failed.argument(2, "stride"), at, 0) or _each(kernel, at, 1)
        if "pool" in failed.name and (size + 2 * _each(padding, at, 0) - reach) // stride + 1 <= 0:
            return reach, size
    return None


def _each(setting: Any, at: int, default: int) -> int:
    if isinstance(setting, tuple | list):
        return int(setting[at]) if at < len(setting) else int(setting[0]) if setting else default
    return int(setting) if isinstance(setting, int) else default
