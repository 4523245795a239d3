"""Logits passed to a loss that expects probabilities and raises."""

from __future__ import annotations

import ast

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.rules.loss.probabilities import SIGMOID, SOFTMAX, made_by
from whence.rules.nonfinite.telling import number_text
from whence.rules.rule import Rank, rule
from whence.rules.telling import describe, failure_finding
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.failed import FailedCall

BEYOND_ROUNDING = 1e-3
WITH_LOGITS = {
    "BCELoss": "BCEWithLogitsLoss",
    "binary_cross_entropy": "binary_cross_entropy_with_logits",
}


@rule("loss/double-sigmoid", Rank.CAUSE)
def bare_logits(failed: FailedCall) -> Finding | None:
    """The form that raises: binary_cross_entropy rejects values outside 0 to 1."""
    given = failed.argument(0, "input")
    if (
        failed.name != "binary_cross_entropy"
        or not isinstance(given, torch.Tensor)
        or not given.is_floating_point()
    ):
        return None
    if given.is_meta or given.layout is not torch.strided:
        return None
    content = given.detach()
    if (
        not content.numel()
        or not bool(content.isfinite().all())
        or made_by(failed.value(given), SIGMOID | SOFTMAX)
    ):
        return None
    low, high = float(content.min()), float(content.max())
    if low >= -BEYOND_ROUNDING:
        # Possibly a sum of probabilities.
        return None
    layer = failed.scope.module if failed.scope is not None else None
    built = failed.modules.built_at(layer) if isinstance(layer, nn.BCELoss) else ()
    site = built[0] if built else failed.site
    return failure_finding(
        failed,
        "loss/double-sigmoid",
        verdict=f"binary_cross_entropy expects probabilities, got logits from {number_text(low)} "
        f"to {number_text(high)}",
        spot=Spot.of_site(site) if site is not None else None,
        why="binary_cross_entropy takes the logarithm of its input without applying a sigmoid, "
        "and no earlier call applied one.",
        fix="Use BCEWithLogitsLoss (binary_cross_entropy_with_logits), which applies the sigmoid "
        "itself. Apply a sigmoid only where probabilities are needed.",
        patch=_with_logits(site),
        operands=(Operand("input", describe(given)),),
    )


def _with_logits(site: Site | None) -> str | None:
    node = site.node() if site is not None else None
    name = last_name(node.func) if isinstance(node, ast.Call) else ""
    if site is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    owner = ast.unparse(node.func.value)
    return (
        diff_of(replace_node(site.filename, node.func, f"{owner}.{WITH_LOGITS[name]}"))
        if name in WITH_LOGITS
        else None
    )
