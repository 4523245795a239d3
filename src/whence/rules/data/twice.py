"""Pictures divided by 255 that had been divided by 255 already: the form of data/unscaled that one division proves."""

from __future__ import annotations

import ast

import torch

from whence.finding import Confidence, Finding, Operand, Severity
from whence.ledgers.study import Study
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import describe, spot_at, tell_silent
from whence.source.edits import diff_of, replace_node
from whence.source.text import text_of
from whence.tape.tape import Call, Value

DIVISIONS = frozenset({"div", "__truediv__", "true_divide", "div_", "__itruediv__", "divide"})
BYTE = 255


@study_rule("data/unscaled", Rank.CAUSE)
def scaled_twice(study: Study) -> Finding | None:
    for loss, call in study.loss_calls():
        value = _divided(call)
        content = study.content(value) if value is not None else None
        if content is None or not _are_shares_of_bytes(content):
            continue
        return tell_silent(
            study,
            "data/unscaled",
            spot=spot_at(call.site),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.PROVEN,
            verdict=f"pictures are divided by 255 that are shares of 255 already: they reach only {float(content.max()) / BYTE:.2g}",
            what="the model is trained on them",
            why="Every number is a whole number divided by 255, none is above 1: something before has scaled them.",
            fix="Scale once: take this division out, or the one before.",
            patch=_without(call),
            operands=(Operand("what is divided", describe(content)),),
        )
    return None


def _divided(call: Call) -> Value | None:
    """What a call divides by 255, if that is a batch of pictures."""
    if call.name not in DIVISIONS or len(call.args) < 2 or call.args[1] != BYTE or not call.operands:
        return None
    value = call.operands[0]
    is_picture = len(value.shape) in (3, 4) and value.dtype.is_floating_point and not value.requires_grad
    return value if is_picture and value not in call.changed else None


def _without(call: Call) -> str | None:
    node = call.site.node() if call.site is not None else None
    if call.site is None or not isinstance(node, ast.BinOp):
        return None
    return diff_of(replace_node(call.site.filename, node, text_of(call.site.filename, node.left)))


def _are_shares_of_bytes(content: torch.Tensor) -> bool:
    """Between 0 and 1, many different ones, and each a whole number of 255ths."""
    whole = content.detach()[:4].double() * BYTE
    return (
        float(whole.min()) >= 0
        and 1.5 < float(whole.max()) <= BYTE + 1e-3
        and float((whole - whole.round()).abs().max()) < 1e-3
        and len(set(whole.round().flatten().tolist())) > 8
    )
