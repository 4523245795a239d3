"""Normalisation layers over too little, or over the wrong axis."""

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
from whence.rules.telling import describe, layer_text, shape_text, tell
from whence.source.classes import method_of
from whence.source.edits import diff_of, give_by_name
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.batches import Batch
from whence.tape.failed import FailedCall


@rule("shape/single-value-norm")
def single_value_norm(failed: FailedCall) -> Finding | None:
    """A normalisation layer got one value per channel.

    What happened
        A BatchNorm or InstanceNorm in training mode was given a single value per channel: there is nothing to take a
        spread of. Usually the last batch of the epoch has one sample.
    Why it matters
        It comes after a whole epoch went well.
    How it is detected
        The shape of the layer's input, and the loader: len(dataset) % batch_size.
    How to fix it
        drop_last=True for the training loader (not for validation), or a norm that does not depend on the batch.
    When it stays silent
        Evaluation mode; a batch of one with several places per channel.
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
    return tell(
        failed,
        "shape/single-value-norm",
        verdict=f"{path} got one value per channel and cannot take a spread of it",
        trail=trail,
        spot=spot,
        why=_why(current, given)
        if leftover and current is not None
        else f"The input is {shape_text(given.shape)}: one value for each of {given.shape[1]} channels.",
        fix="Leave batches of one out of the training batches here, or use GroupNorm or LayerNorm."
        if own is not None
        else "Drop the incomplete batch in training (drop_last=True on this loader; keep it in evaluation), or use GroupNorm or LayerNorm."
        if leftover
        else "Give training batches of at least two, use eval mode for a single sample, or use GroupNorm or LayerNorm.",
        patch=_drop_last_patch(built) if own is None else None,
        operands=(Operand("input", describe(given)),),
    )


def _batches_made(sampler: object) -> Spot | None:
    """Where a batch sampler of the program's own gives its last batch, or puts it into a list."""
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
        return f"{length} samples in batches of {size} leave one for the last: {length} % {size} = 1. Its input is {shape_text(given.shape)}."
    return f"The loader delivered a batch of one: {shape_text(given.shape)}."


def _drop_last_patch(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call):
        return None
    if any(each.arg in ("drop_last", "batch_sampler") for each in node.keywords):
        return None
    return diff_of(give_by_name(spot.filename, node, "drop_last", "True"))


@rule("shape/norm-axis")
def norm_axis(failed: FailedCall) -> Finding | None:
    """A normalisation layer runs over the wrong axis.

    What happened
        BatchNorm and GroupNorm count channels at axis 1, LayerNorm at the end; the layer was built for a size that stands elsewhere,
        or nowhere, in its input.
    Why it matters
        The message says "running_mean should contain 10 elements not 16" with the numbers the wrong way round for most
        readers; where the sizes happen to agree nothing is said at all.
    How it is detected
        The layer's size against the axes of its input. Where two axes have this size: the one that the norm reads came with the data,
        and the other is where the layer in front of it put its outputs. normalize(dim=0) of vectors that are compared row by row, if in
        a replay these rows are samples.
    How to fix it
        Transpose around the layer, use LayerNorm for features at the end, or build the layer for what arrives.
    When it stays silent
        If the size is right. Where both axes have it: norms over several axes, outputs that the program has moved to another axis, a norm whose
        size goes by another name than the outputs do (`LayerNorm(window)`), columns that are normalised to be correlated.
    Cost
        None until a call raises; for norms of inputs with two axes of one size a few trials without data.
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
    return tell(
        failed,
        "shape/norm-axis",
        verdict=f"{path} normalises {wanted} features, axis {axis} of its input has {given.shape[axis]}",
        spot=constructor,
        why=f"{name} reads its features at axis {axis} of {shape_text(given.shape)}{found}.",
        fix="Transpose to (N, C, L) in front of the layer and back behind it, or use nn.LayerNorm, which works on the last axis."
        if elsewhere
        else f"Build the layer for {given.shape[axis]} features.",
        operands=(Operand("input", describe(given)),),
        table=table(failed),
    )


def _feature_axis(failed: FailedCall) -> tuple[int | None, int]:
    """How many features the norm is for, and at which axis it looks for them."""
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
