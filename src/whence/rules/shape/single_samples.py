"""A single sample without a batch axis, compared with a batch of one; helpers to retry a loss."""

from __future__ import annotations

import ast

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.rules.operations import CLASS_LOSSES
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.edits import diff_of, insert_after
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.replay import is_weight
from whence.tape.tape import Value
from whence.tape.trial import try_values

LONGEST_WALK = 64


def unbatched_sample(
    failed: FailedCall, prediction: torch.Tensor, target: torch.Tensor
) -> Finding | None:
    """One operand is a single sample without a batch axis, the other a batch of one."""
    lacks = "target" if not target.dim() else "prediction"
    lacking, other = (target, prediction) if lacks == "target" else (prediction, target)
    proof = loss_runs(failed, lacking, lacking.unsqueeze(0), other, other, f"{lacks}.unsqueeze(0)")
    if proof is None:
        return None
    has, site = "prediction" if lacks == "target" else "target", failed.call.site
    at = Spot.of_site(site) if site is not None else None
    return failure_finding(
        failed,
        "shape/batch-mismatch",
        verdict=f"the {lacks} {shape_text(lacking.shape)} has no batch axis, "
        f"the {has} {shape_text(other.shape)} has one",
        spot=_unbatched_at(failed.value(lacking)),
        why=f"{failed.name} takes (batch, classes) with labels (batch,), or one prediction "
        "(classes,) with one label ().",
        fix=f"Add the batch axis: {lacks}.unsqueeze(0), or x[i:i + 1] where a sample is taken with "
        "x[i].",
        patch=first_argument(at, ".unsqueeze(0)") if lacks == "prediction" else None,
        operands=(Operand("prediction", describe(prediction)), Operand("target", describe(target))),
        counterfactual=proof,
    )


def unbatched_in_backward(failed: FailedCall) -> Finding | None:
    """Forward accepts one prediction with a row of one label; only backward rejects it."""
    root = next(iter(failed.call.operands), None)
    loss = (
        next((each for each in ancestors(root) if each.name in CLASS_LOSSES), None)
        if root is not None
        else None
    )
    shapes = [each.shape for each in loss.operands[:2]] if loss is not None else []
    if (
        loss is None
        or loss.site is None
        or [len(each) for each in shapes] != [1, 1]
        or shapes[1][0] != 1
    ):
        return None
    prediction, target = loss.operands[:2]
    return failure_finding(
        failed,
        "shape/batch-mismatch",
        verdict=f"the prediction {shape_text(prediction.shape)} has no batch axis, "
        f"the target {shape_text(target.shape)} has one",
        spot=_unbatched_at(prediction) or Spot.of_site(loss.site),
        why=f"{loss.name} takes (batch, classes) with labels (batch,), or one prediction "
        "(classes,) with one label (). Its forward accepts this mixture; only its backward raises.",
        fix="Give both a batch axis, prediction.unsqueeze(0), or neither.",
        patch=first_argument(Spot.of_site(loss.site), ".unsqueeze(0)"),
        operands=(Operand("prediction", describe(prediction)), Operand("target", describe(target))),
    )


def _unbatched_at(value: Value) -> Spot | None:
    """Where a sample was taken out of a batch: the latest call that dropped an axis."""
    for _ in range(LONGEST_WALK):
        call = value.call
        data = [each for each in call.operands if not is_weight(each)] if call is not None else []
        if call is None or not data:
            return None
        if len(data[0].shape) > len(value.shape):
            return Spot.of_site(call.site) if call.site is not None else None
        value = data[0]
    return None


def loss_runs(
    failed: FailedCall,
    prediction: torch.Tensor,
    new_prediction: torch.Tensor,
    target: torch.Tensor,
    new_target: torch.Tensor,
    what: str,
) -> str | None:
    def put(each: torch.Tensor) -> torch.Tensor:
        return new_prediction if each is prediction else new_target if each is target else each

    ran = callable(failed.func) and try_values(failed.func, failed.args, failed.kwargs, put).ran
    return f"the same loss with {what} runs" if ran else None


def first_argument(spot: Spot | None, text: str) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call) or not node.args:
        return None
    first = node.args[0]
    if isinstance(first, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return diff_of(insert_after(spot.filename, first, text))
    return None
