"""Gradients that are too small for float16."""

from __future__ import annotations

import ast

import torch

from whence.finding import Finding, Severity
from whence.ledgers.study import Study
from whence.rules.precision.narrowing import where_narrowed
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import silent_finding, spot_at
from whence.source.spots import Spot
from whence.source.text import parent_of
from whence.tape.replay import Run
from whence.tape.tape import Call, Value

SCALES = (2.0**16, 2.0**12, 2.0**8)
MOST_LOST = 0.3


@study_rule("precision/underflow", Rank.CALL)
def underflow(study: Study) -> Finding | None:
    """Half-precision gradients are zero where float32 gradients are not.

    What happened
        The smallest positive float16 is 6e-8. Gradients below that became zero in backward.
    Why it matters
        Weights with zero gradients do not learn. Nothing reports it: the loss falls, but less than
        it could.
    How it is detected
        The step is replayed with its loss multiplied by 65536 before backward: gradient elements
        that were zero are not, and all stay finite.
    How to fix it
        Use a GradScaler, which scales the loss and unscales the gradients, or bfloat16, which has
        the range of float32.
    When it stays silent
        bfloat16, a loss that is already scaled, gradients that are zero for another reason (ReLU,
        masks): these stay zero.
    Cost
        None in programs without float16; otherwise a replay of a few recorded steps with two
        backward passes.
    """
    half = next((call for _, call in study.loss_calls() if _is_half(call)), None)
    if half is None or study.run is None:
        return None
    for loss in study.losses:
        lost = _lost(study.run, loss.value)
        if lost is None or lost[0] < MOST_LOST * lost[1]:
            continue
        zero, aimed, scale = lost
        return silent_finding(
            study,
            "precision/underflow",
            spot=_where_half_began(study, half) or spot_at(half.site),
            symptom=spot_at(loss.call.site),
            step=study.step,
            op=half.name,
            phase="backward",
            severity=Severity.WARNING,
            verdict=f"{zero / aimed:.0%} of the gradient elements underflow to zero in float16",
            what=f"{zero} of {aimed} elements of the weights' gradients underflow in backward",
            why="The smallest positive float16 is 6e-8; smaller values become zero. Gradients of "
            "small losses, or of means over many elements, are often below that.",
            fix="Scale the loss with torch.amp.GradScaler, or use bfloat16, which has the range of "
            "float32.",
            replay="bit-identical",
            counterfactual=f"with the loss multiplied by {scale:g}, these {zero} elements are not "
            "zero, and all are finite",
        )
    return None


def _is_half(call: Call) -> bool:
    return any(each.dtype is torch.float16 for each in call.outputs)


def _lost(run: Run, value: Value) -> tuple[int, int, float] | None:
    """The number of underflowed elements, of elements nonzero with a scaled loss, the scale."""
    loss = run.contents.get(value)
    weights = [each for each in run.leaves.values() if each.requires_grad]
    if loss is None or not loss.requires_grad or loss.numel() != 1 or not weights:
        return None
    try:
        plain = _gradients(loss, weights, 1.0)
    except RuntimeError:
        # A factor of the loss, such as a scaler's scale, has been modified since.
        return None
    for scale in SCALES:
        scaled = _gradients(loss, weights, scale)
        if all(bool(torch.isfinite(each).all()) for each in scaled if each is not None):
            pairs = [
                (one, other)
                for one, other in zip(plain, scaled, strict=True)
                if one is not None and other is not None
            ]
            zero = sum(int(((one == 0) & (other != 0)).sum()) for one, other in pairs)
            return zero, max(sum(int((other != 0).sum()) for _, other in pairs), 1), scale
    return None


def _gradients(
    loss: torch.Tensor, weights: list[torch.Tensor], scale: float
) -> tuple[torch.Tensor | None, ...]:
    # Multiplied in the graph as a scaler does: in float32 if the loss is float16.
    scaled = (
        loss.float() * scale if loss.dtype is torch.float16 and scale <= 65504 else loss * scale
    )
    return torch.autograd.grad(scaled, weights, retain_graph=True, allow_unused=True)


def _where_half_began(study: Study, half: Call) -> Spot | None:
    """The autocast block around the call, or else the line that made the weight half."""
    if half.autocast is not None:
        for site in half.stack:
            node: ast.AST | None = site.node() or site.statement()
            while node is not None:
                if isinstance(node, ast.With):
                    for item in node.items:
                        if "autocast" in ast.unparse(item.context_expr):
                            return Spot.of_node(site.filename, item.context_expr)
                node = parent_of(node)
    for value in half.operands:
        tensor = value.tensor
        if (
            tensor is not None
            and tensor.is_leaf
            and tensor.requires_grad
            and tensor.dtype is torch.float16
        ):
            return where_narrowed(study, tensor)
    return None
