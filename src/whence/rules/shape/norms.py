"""Normalization layers with too few values, or over the wrong axis."""

from __future__ import annotations

import ast

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import last_move
from whence.lineage.constructors import argument_origin
from whence.lineage.properties import HasAxis
from whence.lineage.trail import trace
from whence.rules.rule import rule
from whence.rules.shape.batch import batch_size
from whence.rules.shape.layers import table
from whence.rules.telling import describe, failure_finding, layer_text, shape_text
from whence.source.classes import method_of
from whence.source.edits import diff_of, give_by_name
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.batches import Batch
from whence.tape.failed import FailedCall


@rule("shape/single-value-norm")
def single_value_norm(failed: FailedCall) -> Finding | None:
    """A normalization layer received one value per channel.

    What happened
        A BatchNorm or InstanceNorm in training mode received a single value per channel, which has
        no variance. Usually the last batch of the epoch has one sample.
    Why it matters
        It raises after a whole epoch has succeeded.
    How it is detected
        From the shape of the layer's input, and from the loader: len(dataset) % batch_size.
    How to fix it
        Set drop_last=True on the training loader (not for validation), or use a norm that does not
        depend on the batch.
    When it stays silent
        Evaluation mode; a batch of one with several positions per channel.
    Cost
        None until a call raises.
    """
    given = failed.argument(0, "input")
    if (
        failed.name not in ("batch_norm", "instance_norm")
        or not isinstance(given, torch.Tensor)
        or given.dim() < 2
    ):
        return None
    per_channel = (
        given.numel() // max(given.shape[1], 1)
        if failed.name == "batch_norm"
        else given[0, 0].numel()
    )
    if per_channel != 1:
        return None
    current = failed.loaders.current
    leftover = failed.name == "batch_norm" and current is not None and batch_size(failed) == 1
    trail = (
        None
        if leftover
        else trace(failed.value(given), HasAxis(-given.dim(), given.shape[0]), failed)
    )
    own = _batches_made(current.info.batch_sampler()) if leftover and current is not None else None
    built = (
        Spot.of_site(current.info.stack[0])
        if leftover and current is not None and current.info.stack
        else None
    )
    spot = own or built
    layer = failed.layer
    path = failed.modules.path_of(layer) if layer is not None else failed.name
    return failure_finding(
        failed,
        "shape/single-value-norm",
        verdict=f"{path} got one value per channel, which has no variance",
        trail=trail,
        spot=spot,
        why=_why(current, given)
        if leftover and current is not None
        else f"The input is {shape_text(given.shape)}: one value for each of {given.shape[1]} "
        "channels.",
        fix="Exclude batches of one sample in this batch sampler, or use GroupNorm or LayerNorm."
        if own is not None
        else "Set drop_last=True on this training loader, or use GroupNorm or LayerNorm."
        if leftover
        else "Use batches of at least two samples in training and eval mode for a single sample, "
        "or use GroupNorm or LayerNorm.",
        patch=_drop_last_patch(built) if own is None else None,
        operands=(Operand("input", describe(given)),),
    )


def _batches_made(sampler: object) -> Spot | None:
    """Where the program's own batch sampler yields its last batch, or appends it to a list."""
    method, filename = method_of(type(sampler), "__iter__")
    nodes = list(ast.walk(method)) if method is not None else []
    given = [each for each in nodes if isinstance(each, ast.Yield)]
    listed = [
        each
        for each in nodes
        if isinstance(each, ast.Call) and last_name(each.func) == "append" and each.args
    ]
    last = max(given or listed, key=lambda each: each.lineno, default=None)
    return Spot.of_node(filename, last) if last is not None else None


def _why(current: Batch, given: torch.Tensor) -> str:
    length, size = current.info.length(), current.info.batch_size
    if length and size and length % size == 1 and size > 1:
        return (
            f"{length} samples in batches of {size} leave one sample for the last batch "
            f"({length} % {size} = 1). Its input is {shape_text(given.shape)}."
        )
    return f"The loader delivered a batch of one sample: {shape_text(given.shape)}."


def _drop_last_patch(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call):
        return None
    if any(each.arg in ("drop_last", "batch_sampler") for each in node.keywords):
        return None
    return diff_of(give_by_name(spot.filename, node, "drop_last", "True"))


@rule("shape/norm-axis")
def norm_axis(failed: FailedCall) -> Finding | None:
    """A normalization layer runs over the wrong axis.

    What happened
        BatchNorm and GroupNorm expect channels on axis 1, LayerNorm on the last axis. The layer was
        built for a size that is on another axis of its input, or on none.
    Why it matters
        The message "running_mean should contain 10 elements not 16" is easy to read the wrong way
        round. If the sizes happen to agree, nothing raises.
    How it is detected
        The layer's size is compared with the axes of its input. If two axes have this size, Whence
        checks that the axis the norm reads came with the data and that the other one holds the
        outputs of the previous layer. For normalize(dim=0) of vectors that are later compared row
        by row, a replay checks that the rows are samples.
    How to fix it
        Transpose around the layer, use LayerNorm for features on the last axis, or build the layer
        for the size that arrives.
    When it stays silent
        If the size is right. If both axes have it: norms over several axes, outputs that the
        program has moved to another axis, a norm whose size has another name than the outputs'
        (`LayerNorm(window)`), columns that are normalized to be correlated.
    Cost
        None until a call raises; a few trials without data for norms of inputs that have two axes
        of one size.
    """
    given = failed.argument(0, "input")
    if not isinstance(given, torch.Tensor) or given.dim() < 2:
        return None
    wanted, axis = _feature_axis(failed)
    if wanted is None or given.shape[axis] == wanted:
        return None
    layer = failed.layer
    path = failed.modules.path_of(layer) if layer is not None else failed.name
    elsewhere = [at for at, size in enumerate(given.shape) if size == wanted and at > 0]
    stack = failed.modules.built_at(layer) if layer is not None else ()
    constructor = argument_origin(stack, 0, "num_features") if not elsewhere else None
    moved = last_move(failed.value(given)) if elsewhere else None
    if moved is not None and moved.site is not None:
        constructor = Spot.of_site(moved.site)
    name = layer_text(layer, path) if layer is not None else failed.name
    found = f"; {wanted} is the size of axis {elsewhere[0]}" if elsewhere else ""
    return failure_finding(
        failed,
        "shape/norm-axis",
        verdict=f"{path} expects {wanted} features on axis {axis}, got {given.shape[axis]}",
        spot=constructor,
        why=f"{name} reads its features from axis {axis} of {shape_text(given.shape)}{found}.",
        fix="Transpose to (N, C, L) before the layer and back after it, or use nn.LayerNorm, which "
        "normalizes the last axis."
        if elsewhere
        else f"Build the layer for {given.shape[axis]} features.",
        operands=(Operand("input", describe(given)),),
        table=table(failed),
    )


def _feature_axis(failed: FailedCall) -> tuple[int | None, int]:
    """The norm's number of features, and the axis where it expects them."""
    if failed.name in ("batch_norm", "instance_norm"):
        sized = [
            each
            for each in (*failed.args[1:5], *failed.kwargs.values())
            if isinstance(each, torch.Tensor) and each.dim() == 1
        ]
        return (sized[0].numel() if sized else None), 1
    if failed.name in ("layer_norm", "rms_norm"):
        shape = failed.argument(1, "normalized_shape")
        return (shape[-1] if isinstance(shape, tuple | list) and shape else None), -1
    return None, 0
