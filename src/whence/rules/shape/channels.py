"""A convolution received the wrong number of channels or the wrong layout.

What happened
    The channel axis of a convolution's input differs from the size its weight was built for: a
    grayscale image instead of RGB, channels last instead of first, or two layers that disagree.
Why it matters
    The fix is at the loader, at a permute or at a constructor; PyTorch's message does not say
    which.
How it is detected
    The shapes of input and weight are compared. If the expected size is at another axis, the layout
    is wrong. The channel axis is traced to the line that made it.
How to fix it
    Permute where the array becomes a tensor, convert the image mode where the image is read, or
    make the layers agree.
When it stays silent
    Convolutions whose channels match.
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast

import torch

from whence.finding import Finding, Operand
from whence.lineage.constructors import argument_origin
from whence.lineage.properties import HasAxis
from whence.lineage.trail import Birth, Trail, border, trace
from whence.rules.operations import convolution
from whence.rules.rule import rule
from whence.rules.shape.layers import table
from whence.rules.telling import describe, failure_finding, layer_text, shape_text
from whence.source.edits import diff_of, insert_after, replace_node
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.trial import try_shapes


@rule("shape/channels")
def channels(failed: FailedCall) -> Finding | None:
    operands = convolution(failed)
    if operands is None:
        return None
    given, weight, groups = operands
    spatial = weight.dim() - 2
    if given.dim() not in (spatial + 1, spatial + 2):
        return None
    wanted = weight.shape[0] if "transpose" in failed.name else weight.shape[1] * groups
    axis = -1 - spatial
    got = given.shape[axis]
    if got == wanted:
        return None
    layer = failed.layer
    path = failed.modules.path_of(layer) if layer is not None else failed.name
    trail = trace(failed.value(given), HasAxis(axis, got), failed)
    last = given.shape[-1] == wanted
    spot, patch = _place(failed, trail, got, channels_last=last, spatial=spatial)
    expected = tuple(
        wanted if at == given.dim() + axis else size for at, size in enumerate(given.shape)
    )
    floats = {each: torch.float32 for each in failed.call.operands if each.dtype.is_floating_point}
    ran = try_shapes(failed.call, {failed.value(given): expected}, floats).ran
    return failure_finding(
        failed,
        "shape/channels",
        verdict=f"{path} expects {wanted} channels, got {got}"
        + (": the input is channels-last" if last else ""),
        trail=trail,
        spot=spot,
        why=_why(failed, given, wanted, got, last=last),
        fix=_fix(trail, wanted, got, last=last, spatial=spatial),
        patch=patch,
        operands=(Operand("input", describe(given)), Operand("weight", shape_text(weight.shape))),
        table=table(failed),
        counterfactual=f"the same call with an input of {shape_text(expected)} runs"
        if ran
        else None,
    )


def _why(failed: FailedCall, given: torch.Tensor, wanted: int, got: int, *, last: bool) -> str:
    layer = failed.layer
    name = layer_text(layer, failed.modules.path_of(layer)) if layer is not None else failed.name
    if last:
        return (
            f"{name} reads axis 1 of {shape_text(given.shape)} as channels. The size {wanted} is "
            "at the last axis, the layout that NumPy and PIL use for images."
        )
    return (
        f"{name} has a weight for {wanted} channels; the input {shape_text(given.shape)} has {got}."
    )


def _fix(trail: Trail, wanted: int, got: int, *, last: bool, spatial: int) -> str:
    if last:
        order = "0, 3, 1, 2" if spatial == 2 else "0, 2, 1"
        return f"Move the channels to axis 1 where the array becomes a tensor: .permute({order})."
    if trail.birth is Birth.LAYER:
        return (
            f"Make the two layers agree: this one takes {wanted} channels, "
            f"the previous one outputs {got}."
        )
    if got in (1, 3, 4) and wanted in (1, 3, 4):
        return (
            f"Convert the images to {wanted} channel{'s' if wanted > 1 else ''} where they are "
            f"read or created, or build the layer for {got}."
        )
    return f"Create the input with {wanted} channels, or build the layer for {got}."


def _place(
    failed: FailedCall, trail: Trail, got: int, *, channels_last: bool, spatial: int
) -> tuple[Spot | None, str | None]:
    if channels_last and trail.birth in (Birth.SOURCE, Birth.SAMPLE, Birth.CALL):
        spot = border(trail)
        order = "0, 3, 1, 2" if spatial == 2 else "0, 2, 1"
        node = spot.node() if spot is not None else None
        patch = (
            diff_of(insert_after(spot.filename, node, f".permute({order})"))
            if spot is not None and isinstance(node, ast.Call)
            else None
        )
        return spot, patch
    inside = trail.birth is Birth.LAYER or (trail.birth is Birth.CALL and trail.phase == "forward")
    if not inside or failed.tape.earlier_at(failed.call) is not None:
        return None, None
    stack = failed.modules.built_at(failed.layer) if failed.layer is not None else ()
    if not stack:
        return None, None
    constructor, spot = Spot.of_site(stack[0]), argument_origin(stack, 0, "in_channels")
    if spot != constructor:
        return spot, None
    node = spot.node()
    named = (
        next((each.value for each in node.keywords if each.arg == "in_channels"), None)
        if isinstance(node, ast.Call)
        else None
    )
    target = named or (node.args[0] if isinstance(node, ast.Call) and node.args else None)
    return spot, diff_of(
        replace_node(constructor.filename, target, str(got))
    ) if target is not None else None
