"""Pictures divided by 255 that had been divided by 255 already: the form of data/unscaled that one division proves."""

from __future__ import annotations

import ast

from whence.finding import Confidence, Finding, Operand, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.batches import LoaderEntry
from whence.ledgers.study import Study
from whence.lineage.datasets.shares import BYTE, DividedAgain, are_shares_of_bytes, divided_again, divisions_by_255
from whence.lineage.elsewhere import NotPossible, run_elsewhere
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import describe, spot_at, tell_silent
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.tape import Call, Value

PATIENCE = 5.0
WHY = "Every number is a whole number divided by 255, none is above 1: something before has scaled them."
FIX = "Scale once: take this division out, or the one before."
DIVISIONS = frozenset({"div", "__truediv__", "true_divide", "div_", "__itruediv__", "divide"})


@study_rule("data/unscaled", Rank.CAUSE)
def scaled_twice(study: Study) -> Finding | None:
    for loss, call in study.loss_calls():
        value = _divided(call)
        content = study.content(value) if value is not None else None
        if content is None or not are_shares_of_bytes(content):
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
            verdict=_verdict(float(content.max()) / BYTE),
            what="the model is trained on them",
            why=WHY,
            fix=FIX,
            patch=_without(spot_at(call.site)),
            operands=(Operand("what is divided", describe(content)),),
        )
    return None


def scaled_twice_in_samples(audit: Audit) -> Finding | None:
    """The same where samples are made: some of a loader's are fetched again, once, if the program divides by 255 anywhere."""
    for entry in audit.batches.trained():
        if entry.was_divided or not entry.indices or not _has_pictures(entry):
            continue
        entry.was_divided = True
        found = _asked(entry)
        if found is not None:
            return tell_silent(
                audit,
                "data/unscaled",
                spot=found.spot,
                symptom=entry.info.built,
                step=audit.step,
                phase="data",
                severity=Severity.WARNING,
                confidence=Confidence.PROVEN,
                verdict=_verdict(found.highest),
                what="the model is trained on them",
                why=WHY,
                fix=FIX,
                patch=_without(found.spot),
            )
    return None


def _asked(entry: LoaderEntry) -> DividedAgain | None:
    if next(divisions_by_255(), None) is None:
        return None
    try:
        return run_elsewhere(lambda: divided_again(entry.info, entry.indices), PATIENCE)
    except NotPossible:
        return None


def _has_pictures(entry: LoaderEntry) -> bool:
    leaves = [each.array for each in entry.summary.leaves.values() if each.array is not None]
    return any("float" in kind for each in leaves for kind in each.dtypes)


def _verdict(highest: float) -> str:
    return f"pictures are divided by 255 that are shares of 255 already: they reach only {highest:.2g}"


def _divided(call: Call) -> Value | None:
    """What a call divides by 255, if that is a batch of pictures."""
    if call.name not in DIVISIONS or len(call.args) < 2 or call.args[1] != BYTE or not call.operands:
        return None
    value = call.operands[0]
    is_picture = len(value.shape) in (3, 4) and value.dtype.is_floating_point and not value.requires_grad
    return value if is_picture and value not in call.changed else None


def _without(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.BinOp):
        return None
    return diff_of(replace_node(spot.filename, node, text_of(spot.filename, node.left)))
