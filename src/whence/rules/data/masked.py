"""All labels, or the essential ones, are masked.

What happened
    Every label of a batch equals ignore_index; or every label at the end of a sample does; or every
    label of one class.
Why it matters
    The model learns nothing, or not the essential part, from such a batch: its loss is a mean over
    no labels.
How it is detected
    The target of a cross entropy is only ignore_index in a recorded step, the step's gradients are
    zero, and so was every loss before; or the loss is NaN for this reason, as most losses before.
    End tokens: a batch is collated again in a child process; the token that ends each sample is
    also the padding and is masked with it. The same holds for a class that is also the padding
    value of the labels.
How to fix it
    Mask less: keep the answer and its end token.
When it stays silent
    Masked prompts and padding, as long as some labels remain; a batch among others that have
    labels. A class that is also padding is reported as info: it may be masked on purpose.
Cost
    A check of the target in a few recorded steps. With the program's own collate function, one
    batch is fetched again once.
"""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from whence.finding import Confidence, Finding, Operand, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.study import Study
from whence.lineage.births import Contents
from whence.lineage.datasets.endings import Ending
from whence.lineage.properties import Shows
from whence.lineage.trail import trace
from whence.rules.loss.probabilities import argument
from whence.rules.operations import CLASS_LOSSES
from whence.rules.rule import Rank, audit_rule, study_rule, trip_rule
from whence.rules.telling import describe, silent_finding, spot_at
from whence.source.definitions import Kind, find_definition
from whence.source.spots import Spot
from whence.source.text import enclosing, statement_of
from whence.tape.scene import Scene
from whence.tape.tape import Call, Value
from whence.tape.trip import Trip

IGNORED = -100
ENOUGH = 32
FEWEST = 2
"""Consecutive batches without a label."""


@study_rule("data/labels-masked")
def labels_masked(study: Study) -> Finding | None:
    for loss, call in study.loss_calls():
        if call.name not in CLASS_LOSSES or (
            loss.number is not None and not math.isfinite(loss.number)
        ):
            # A mean over no labels is NaN, which the trip rule below reports.
            continue
        target = argument(call, 1, "target")
        labels = study.content(target) if target is not None else None
        if target is None or labels is None or labels.is_floating_point() or not labels.numel():
            continue
        ignored = _ignored(call)
        share = float((labels == ignored).float().mean())
        if share == 1.0 and not _learns(study) and _never_learnt(study):
            return _report_masked(study, study.step, call, target, labels)
    return None


@trip_rule("data/labels-masked")
def no_labels_mostly(trip: Trip) -> Finding | None:
    """Most batches have no label at all, from the first on, so it is no accident of one batch."""
    born = trip.born
    call = born.call if born is not None else None
    if call is None or call.name not in CLASS_LOSSES:
        return None
    if 2 * sum(map(math.isfinite, trip.losses)) > len(trip.losses):
        return None
    target = argument(call, 1, "target")
    labels = Contents(trip.tape, trip.run).of(target) if target is not None else None
    if target is None or labels is None or labels.is_floating_point() or labels.numel() < ENOUGH:
        return None
    return (
        _report_masked(trip, trip.step, call, target, labels)
        if bool((labels == _ignored(call)).all())
        else None
    )


@audit_rule("data/labels-masked", Rank.CALL)
def end_masked(audit: Audit) -> Finding | None:
    """The token that ends each sample is masked, because it is also the padding."""
    losses = [each for each in audit.tape.calls if each.name in CLASS_LOSSES and each.grad_mode]
    if not losses:
        return None
    for entry in audit.batches.trained():
        ending = audit.ending_of(entry, list(dict.fromkeys(map(_ignored, losses))))
        if ending is None:
            continue
        loss = next(each for each in losses if _ignored(each) == ending.ignored)
        if ending.share:
            return _class_masked(audit, loss, ending) if _is_class(loss, ending.symbol) else None
        return silent_finding(
            audit,
            "data/labels-masked",
            spot=ending.spot or spot_at(loss.site),
            symptom=spot_at(loss.site),
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            verdict=f"token {ending.symbol} ends every sample and is also the padding: every end "
            "is masked",
            what=f"labels equal to ignore_index, {ending.ignored}, do not contribute to this loss",
            why="Masking the padding token also masks the end of each sample, so the model never "
            "learns to stop.",
            fix="Pad with a separate token, or mask by the length of each sample.",
            counterfactual="samples were fetched one by one in a child process: each ends with "
            "this token, its labels do not",
        )
    return None


def _class_masked(audit: Audit, loss: Call, ending: Ending) -> Finding | None:
    layer = getattr(loss.module, "module", None)
    built = audit.modules.built_at(layer) if layer is not None else ()
    return silent_finding(
        audit,
        "data/labels-masked",
        spot=spot_at(built[0] if built else loss.site),
        symptom=spot_at(loss.site),
        step=audit.step,
        phase="data",
        # Some programs mask a class such as the "outside" tag on purpose and pad with it.
        severity=Severity.INFO,
        confidence=Confidence.HINT,
        verdict=f"class {ending.symbol} is also the padding of the labels, so the loss ignores it",
        what=f"{ending.share:.0%} of the samples' own labels are {ending.symbol}; labels equal to "
        "ignore_index do not contribute to this loss",
        why="The loss cannot distinguish a label from padding with the same value, so the class is "
        "never learned.",
        fix="Pad the labels with -100, the default ignore_index, which is no class, and drop "
        f"ignore_index={ending.ignored}.",
        counterfactual="samples were fetched one by one in a child process: they have this label, "
        "and their batch is padded with it",
    )


def _is_class(loss: Call, number: int) -> bool:
    """Whether the number is one of the predicted classes."""
    shape = loss.operands[0].shape if loss.operands else ()
    return bool(shape) and number < shape[1 if len(shape) > 1 else 0]


def _report_masked(
    scene: Scene, step: int, call: Call, target: Value, labels: torch.Tensor
) -> Finding | None:
    ignored = _ignored(call)
    trail = trace(target, Shows(partial(_is_all, ignored), scene.tape), scene)
    counted = _counted(trail.spot)
    if counted is not None and trail.spot is not None:
        trail = replace(
            trail,
            spot=counted,
            op=None,
            hops=(trail.spot.hop("this many labels are masked here"), *trail.hops),
        )
    return silent_finding(
        scene,
        "data/labels-masked",
        spot=trail.spot,
        symptom=spot_at(call.site),
        step=step,
        op=trail.op,
        phase=trail.phase,
        verdict=f"every label of this batch is {ignored}, which {call.name} ignores",
        what="the loss is a mean over no labels",
        why="Labels equal to ignore_index do not contribute to the loss, and no other labels "
        "remain.",
        fix="Change the line that masks the labels so that at least the answer remains.",
        chain=trail.hops,
        operands=(Operand("labels", describe(labels)),),
    )


def _counted(spot: Spot | None) -> Spot | None:
    """Where the number of masked labels is computed: `n` of `labels[:n] = -100`."""
    node = spot.node() if spot is not None else None
    statement = statement_of(node) if node is not None else None
    match statement:
        case ast.Assign(
            targets=[ast.Subscript(slice=ast.Slice(lower=None, upper=ast.Name(id=name)))]
        ):
            scope = enclosing(statement, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
            made = find_definition(name, scope, statement) if scope is not None else None
            if (
                made is not None
                and made.kind is Kind.ASSIGNED
                and made.value is not None
                and spot is not None
            ):
                return Spot.of_node(spot.filename, made.value)
    return None


def _learns(study: Study) -> bool:
    """Whether other losses, or other accumulated batches, give the step a gradient."""
    weights = [each for group in study.optimizer.param_groups for each in group["params"]]
    found = [study.gradient_of(each) for each in weights]
    return any(each is not None and not each.is_sparse and bool(each.any()) for each in found)


def _never_learnt(study: Study) -> bool:
    """Whether no earlier batch had a label; a single batch without labels does no harm."""
    return len(study.course) >= FEWEST and not any(study.course)


def _ignored(call: Call) -> int:
    return int(call.kwargs.get("ignore_index", IGNORED))


def _is_all(ignored: int, thing: Any) -> bool:
    return bool(tuple(getattr(thing, "shape", ()))) and bool((thing == ignored).all())
