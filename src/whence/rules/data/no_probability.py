"""Targets of a binary cross entropy that are not probabilities: images from 0 to 255, labels -1, 1.

Reported by data/label-range, which documents it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from whence.finding import Finding, Operand
from whence.ledgers.study import Study
from whence.lineage.properties import HasElement
from whence.lineage.trail import trace
from whence.rules.operations import loss_operands
from whence.rules.rule import study_rule
from whence.rules.telling import describe, failure_finding, shape_text, silent_finding, spot_at
from whence.tape.failed import FailedCall

ID = "data/label-range"
VOID = 255
NOISE = 0.5
"""Targets of adversarial losses are drawn around 0 and 1."""


@dataclass(frozen=True, slots=True)
class Range:
    smallest: float
    largest: float
    place: tuple[int, ...]
    """The position of the most extreme element."""

    @property
    def value(self) -> float:
        return self.largest if self.largest > 1 else self.smallest

    def verdict(self, loss: str) -> str:
        return f"{loss} expects targets from 0 to 1, got {self.smallest:g} to {self.largest:g}"

    def why(self) -> str:
        return f"The target at {shape_text(self.place)} is {self.value:g}, which is no probability."

    def fix(self) -> str:
        if self.largest > 1 and self.smallest >= 0:
            return (
                f"Scale the targets to 0 to 1 at the origin: divide images by {VOID}, other values "
                "by their maximum."
            )
        return (
            "Scale the targets to 0 to 1 at the origin: (y + 1) / 2 for -1 to 1. For unbounded "
            "targets use mse_loss."
        )


def _beyond(target: torch.Tensor | None, tolerated: float = 0.0) -> Range | None:
    if (
        target is None
        or target.is_meta
        or target.is_sparse
        or target.is_complex()
        or not target.numel()
    ):
        return None
    if not bool(torch.isfinite(target).all()):
        return None
    smallest, largest = float(target.min()), float(target.max())
    if smallest >= -tolerated and largest <= 1 + tolerated:
        return None
    value = largest if largest > 1 else smallest
    return Range(smallest, largest, tuple((target == value).nonzero()[0].tolist()))


def refused(failed: FailedCall) -> Finding | None:
    """The loud form: binary_cross_entropy checks its targets."""
    operands = loss_operands(failed) if failed.name == "binary_cross_entropy" else None
    found = _beyond(operands[1]) if operands is not None else None
    if operands is None or found is None:
        return None
    return failure_finding(
        failed,
        ID,
        verdict=found.verdict(failed.name),
        trail=trace(failed.value(operands[1]), HasElement(found.value, found.place), failed),
        why=found.why(),
        fix=found.fix(),
        operands=(Operand("target", describe(operands[1])),),
    )


@study_rule(ID)
def with_logits(study: Study) -> Finding | None:
    """The silent form: the loss with logits checks nothing and falls below zero without bound."""
    for _, call in study.loss_calls():
        if call.name != "binary_cross_entropy_with_logits" or len(call.operands) < 2:
            continue
        value = call.operands[1]
        target = study.content(value) if not value.requires_grad else None
        found = _beyond(target, NOISE)
        if target is None or found is None:
            continue
        trail = trace(value, HasElement(found.value, found.place), study)
        return silent_finding(
            study,
            ID,
            spot=trail.spot or spot_at(call.site),
            symptom=spot_at(call.site),
            chain=trail.hops,
            call=call,
            step=study.step,
            verdict=found.verdict(call.name),
            what="the loss has no lower bound: it falls below zero as the model gets more "
            "confident",
            why=found.why(),
            fix=found.fix(),
            operands=(Operand("target", describe(target)),),
        )
    return None
