"""All, or the essential, labels are masked away.

What happened
    Every label of a batch is the one that the loss ignores; or every label that says where a sample ends; or every label of one class.
Why it matters
    Nothing, or not what matters, is learnt from such a batch: its loss is a mean over nothing.
How it is detected
    The target of a cross entropy is nothing but ignore_index in a recorded step, the step's gradients are zero, and so was every loss
    before; or the loss is NaN because of that, as most losses before. The ends: a batch is put together again from its samples, in a child process;
    the symbol that ends each of them pads it, too, and is left out of the labels. So for a class whose number the labels are padded with.
How to fix it
    Mask less: leave the answer in, and its end.
When it stays silent
    Masked prompts and padding, as long as something is left; a batch among others that have labels. A class that is padding, too, is
    a note: it may be the one for nothing, and left out on purpose.
Cost
    A look at the target in a few recorded steps. With a collate function of the program's own, one batch is fetched again once.
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
from whence.rules.telling import describe, spot_at, tell_silent
from whence.source.definitions import Kind, find_definition
from whence.source.spots import Spot
from whence.source.text import enclosing, statement_of
from whence.tape.scene import Scene
from whence.tape.tape import Call, Value
from whence.tape.trip import Trip

IGNORED = -100
ENOUGH = 32
FEWEST = 2
"""Batches in a row that have no label."""


@study_rule("data/labels-masked")
def labels_masked(study: Study) -> Finding | None:
    for loss, call in study.loss_calls():
        if call.name not in CLASS_LOSSES or (loss.number is not None and not math.isfinite(loss.number)):
            # A mean over nothing is NaN: that is told when it is born.
            continue
        target = argument(call, 1, "target")
        labels = study.content(target) if target is not None else None
        if target is None or labels is None or labels.is_floating_point() or not labels.numel():
            continue
        ignored = _ignored(call)
        share = float((labels == ignored).float().mean())
        if share == 1.0 and not _learns(study) and _never_learnt(study):
            return _told(study, study.step, call, target, labels)
    return None


@trip_rule("data/labels-masked")
def no_labels_mostly(trip: Trip) -> Finding | None:
    """Most batches, and no small ones, have no label at all, from the first one on: that is no accident of a batch."""
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
    return _told(trip, trip.step, call, target, labels) if bool((labels == _ignored(call)).all()) else None


@audit_rule("data/labels-masked", Rank.CALL)
def end_masked(audit: Audit) -> Finding | None:
    """The symbol that ends each sample is masked, because the padding is the same symbol."""
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
        return tell_silent(
            audit,
            "data/labels-masked",
            spot=ending.spot or spot_at(loss.site),
            symptom=spot_at(loss.site),
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            verdict=f"{ending.symbol} ends every sample and is the padding, too: no end is left among the labels",
            what=f"what equals ignore_index, {ending.ignored}, takes no part in this loss",
            why="A mask of the padding's symbol takes the end of each sample with it. The model never learns to stop.",
            fix="Pad with a symbol of its own, or mask by the length of each sample.",
            counterfactual="samples were fetched one by one, in a child process: each has this symbol at its end, and its labels have not",
        )
    return None


def _class_masked(audit: Audit, loss: Call, ending: Ending) -> Finding | None:
    layer = getattr(loss.module, "module", None)
    built = audit.modules.built_at(layer) if layer is not None else ()
    return tell_silent(
        audit,
        "data/labels-masked",
        spot=spot_at(built[0] if built else loss.site),
        symptom=spot_at(loss.site),
        step=audit.step,
        phase="data",
        # Some leave a class out on purpose, the tag for nothing, and pad with it.
        severity=Severity.INFO,
        confidence=Confidence.HINT,
        verdict=f"class {ending.symbol} is the padding of the labels, too, and the loss ignores it: the class is never learnt",
        what=f"{ending.share:.0%} of the samples' own labels are {ending.symbol}, and what equals ignore_index takes no part in this loss",
        why="A loss cannot tell a label from padding that has the same number.",
        fix=f"Pad the labels with a number that is no class, -100, which the loss ignores by itself, and leave ignore_index={ending.ignored} out.",
        counterfactual="samples were fetched one by one, in a child process: they have this label, and their batch is filled up with it",
    )


def _is_class(loss: Call, number: int) -> bool:
    """Whether there is a prediction for it."""
    shape = loss.operands[0].shape if loss.operands else ()
    return bool(shape) and number < shape[1 if len(shape) > 1 else 0]


def _told(scene: Scene, step: int, call: Call, target: Value, labels: torch.Tensor) -> Finding | None:
    ignored = _ignored(call)
    trail = trace(target, Shows(partial(_is_all, ignored), scene.tape), scene)
    counted = _counted(trail.spot)
    if counted is not None and trail.spot is not None:
        trail = replace(trail, spot=counted, op=None, hops=(trail.spot.hop("so many are masked"), *trail.hops))
    return tell_silent(
        scene,
        "data/labels-masked",
        spot=trail.spot,
        symptom=spot_at(call.site),
        step=step,
        op=trail.op,
        phase=trail.phase,
        verdict=f"every label of this batch is {ignored}, which {call.name} ignores",
        what="the loss is a mean over no labels",
        why="What equals ignore_index takes no part in the loss. Nothing is left.",
        fix="Look at the line that masks: leave at least the answer in.",
        chain=trail.hops,
        operands=(Operand("labels", describe(labels)),),
    )


def _counted(spot: Spot | None) -> Spot | None:
    """Where the number of labels that a line masks is worked out: `n` of `labels[:n] = -100`. To mask is right, and so many is not."""
    node = spot.node() if spot is not None else None
    statement = statement_of(node) if node is not None else None
    match statement:
        case ast.Assign(targets=[ast.Subscript(slice=ast.Slice(lower=None, upper=ast.Name(id=name)))]):
            scope = enclosing(statement, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
            made = find_definition(name, scope, statement) if scope is not None else None
            if made is not None and made.kind is Kind.ASSIGNED and made.value is not None and spot is not None:
                return Spot.of_node(spot.filename, made.value)
    return None


def _learns(study: Study) -> bool:
    """Something else gives the step a gradient: other losses, or the other batches that it is accumulated from."""
    weights = [each for group in study.optimizer.param_groups for each in group["params"]]
    found = [study.gradient_of(each) for each in weights]
    return any(each is not None and not each.is_sparse and bool(each.any()) for each in found)


def _never_learnt(study: Study) -> bool:
    """No batch before had a label either: one without any, in a sum that its gradients are averaged over, does no harm."""
    return len(study.course) >= FEWEST and not any(study.course)


def _ignored(call: Call) -> int:
    return int(call.kwargs.get("ignore_index", IGNORED))


def _is_all(ignored: int, thing: Any) -> bool:
    return bool(tuple(getattr(thing, "shape", ()))) and bool((thing == ignored).all())
