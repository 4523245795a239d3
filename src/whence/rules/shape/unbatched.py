"""A batch is read as one sequence or one image.

What happened
    A convolution received an input with one axis less than a batch has. It then reads the first
    axis as channels, so a batch of images without a channel axis looks like one image with as many
    channels as the batch has samples.
Why it matters
    PyTorch's message shows an input with a leading 1 that the program never created. If the sizes
    happen to agree, nothing raises.
How it is detected
    From the number of axes of input and weight, and from the first axis: it is the batch that the
    loader delivered, or the layer expects a single channel.
How to fix it
    Add the channel axis where the data are created: x.unsqueeze(1).
When it stays silent
    A true single image, whose first axis has the channels that the layer expects.
Cost
    None until a call raises.
"""

from __future__ import annotations

import torch

from whence.finding import Finding, Operand
from whence.lineage.properties import HasRank
from whence.lineage.trail import trace
from whence.rules.operations import convolution
from whence.rules.rule import Rank, rule
from whence.rules.shape.batch import batch_size
from whence.rules.telling import describe, failure_finding, layer_text, shape_text
from whence.tape.failed import FailedCall
from whence.tape.trial import try_shapes


@rule("shape/unbatched", Rank.CAUSE)
def unbatched(failed: FailedCall) -> Finding | None:
    operands = convolution(failed)
    if operands is None:
        return None
    given, weight, groups = operands
    wanted = weight.shape[1] * groups
    if (
        given.dim() != weight.dim() - 1
        or given.shape[0] == wanted
        or given.shape[-1] == wanted != 1
    ):
        return None
    rows = given.shape[0]
    if batch_size(failed) != rows and wanted != 1:
        return None
    layer = failed.layer
    path = failed.modules.path_of(layer) if layer is not None else failed.name
    expected = (rows, wanted, *given.shape[1:])
    floats = {each: torch.float32 for each in failed.call.operands if each.dtype != torch.bool}
    if wanted != 1 or not try_shapes(failed.call, {failed.value(given): expected}, floats).ran:
        return None
    return failure_finding(
        failed,
        "shape/unbatched",
        verdict=f"{path} reads the batch of {rows} as one image with {rows} channels",
        trail=trace(failed.value(given), HasRank(given.dim()), failed),
        why=f"{layer_text(layer, path) if layer is not None else failed.name} expects "
        f"(batch, {wanted}, ...). {shape_text(given.shape)} has no channel axis, so its first axis "
        "is read as channels.",
        fix="Add the channel axis where the data are created: .unsqueeze(1).",
        operands=(Operand("input", describe(given)), Operand("weight", shape_text(weight.shape))),
        counterfactual=f"the same call with an input of {shape_text(expected)} runs",
    )
