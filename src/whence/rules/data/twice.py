"""Images divided by 255 twice: the form of data/unscaled that a single division proves."""

from __future__ import annotations

import ast

import torch

from whence.finding import Confidence, Finding, Operand, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.batches import LoaderEntry
from whence.ledgers.study import Study
from whence.lineage.datasets.shares import (
    BYTE,
    DIVIDING,
    MULTIPLYING,
    DividedAgain,
    are_shares_of_bytes,
    divided_again,
    divided_before,
    divisions_by_255,
    folded,
    is_share,
)
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import describe, silent_finding, spot_at
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.batches import leaves_of
from whence.tape.tape import Call, Value

PATIENCE = 5.0
WHY = "Every value is a multiple of 1/255 and none is above 1, so an earlier line has scaled them."
FIX = "Scale once: remove this division, or the earlier one."


@study_rule("data/unscaled", Rank.GENERAL)
def scaled_twice(study: Study) -> Finding | None:
    for loss, call in study.loss_calls():
        value = _divided(call)
        content = study.content(value) if value is not None else None
        if content is None or not are_shares_of_bytes(content):
            continue
        return silent_finding(
            study,
            "data/unscaled",
            spot=spot_at(call.site),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.PROVEN,
            verdict=_verdict(float(content.max()) / BYTE),
            what="the model is trained on these images",
            why=WHY,
            fix=FIX,
            patch=_without(spot_at(call.site)),
            operands=(Operand("dividend", describe(content)),),
        )
    return _delivered_twice(study)


def _delivered_twice(study: Study) -> Finding | None:
    """The values of a batch show it; the line is found by running the preparation again."""
    for batch, data in study.now.deliveries:
        if ("data/unscaled", id(batch.info)) in study.asked:
            continue
        study.asked.add(("data/unscaled", id(batch.info)))
        images = [
            each
            for _, each in leaves_of(data)
            if isinstance(each, torch.Tensor) and each.dim() in (3, 4)
        ]
        faint = [
            each
            for each in images
            if each.is_floating_point() and are_shares_of_bytes(each, times=2)
        ]
        try:
            found = (
                run_in_child(lambda: divided_before(study.frames), PATIENCE, need=Need.PREPARATION)
                if faint
                else None
            )
        except NotPossible:
            found = None
        if found is not None:
            return _report_division(study, found, batch.info.built)
    return None


def _report_division(
    facts: Study | Audit, found: DividedAgain, symptom: Spot | None
) -> Finding | None:
    return silent_finding(
        facts,
        "data/unscaled",
        spot=found.spot,
        symptom=symptom,
        step=facts.step,
        phase="data",
        severity=Severity.WARNING,
        confidence=Confidence.PROVEN,
        verdict=_verdict(found.highest),
        what="the model is trained on these images",
        why=WHY,
        fix=FIX,
        patch=_without(found.spot),
    )


def scaled_twice_in_samples(audit: Audit) -> Finding | None:
    """The same in a dataset: a few samples are fetched again, if the program divides by 255."""
    for entry in audit.batches.trained():
        if entry.was_divided or not entry.indices or not _has_images(entry):
            continue
        entry.was_divided = True
        found = _asked(entry)
        if found is not None:
            return _report_division(audit, found, entry.info.built)
    return None


def _asked(entry: LoaderEntry) -> DividedAgain | None:
    if next(divisions_by_255(), None) is None:
        return None
    try:
        return run_in_child(
            lambda: divided_again(entry.info, entry.indices), PATIENCE, need=Need.SAMPLES
        )
    except NotPossible:
        return None


def _has_images(entry: LoaderEntry) -> bool:
    leaves = [each.array for each in entry.summary.leaves.values() if each.array is not None]
    return any("float" in kind for each in leaves for kind in each.dtypes)


def _verdict(highest: float) -> str:
    return (
        f"images that are scaled already are divided by 255 again: they do not exceed {highest:.2g}"
    )


def _divided(call: Call) -> Value | None:
    """The batch of images that a call divides by 255."""
    if call.name not in DIVIDING | MULTIPLYING or len(call.operands) != 1 or len(call.args) < 2:
        return None
    if not is_share(call.name, call.args[1]):
        return None
    value = call.operands[0]
    is_image = (
        len(value.shape) in (3, 4) and value.dtype.is_floating_point and not value.requires_grad
    )
    return value if is_image and value not in call.changed else None


def _without(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.BinOp):
        return None
    if isinstance(node.op, ast.Div):
        kept = node.left
    else:
        sides = [(node.left, node.right), (node.right, node.left)]
        found = next((one for one, other in sides if is_share("mul", folded(other))), None)
        if found is None:
            return None
        kept = found
    return diff_of(replace_node(spot.filename, node, text_of(spot.filename, kept)))
