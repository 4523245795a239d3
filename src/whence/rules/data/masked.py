"""All, or the essential, labels are masked away.

What happened
    Every label of a batch is the one that the loss ignores, or the loss ignores a class that is none of padding.
Why it matters
    Nothing, or not what matters, is learnt from such a batch: its loss is a mean over nothing.
How it is detected
    The target of a cross entropy is nothing but ignore_index in a recorded step; or ignore_index is a class among the others, for
    targets of one label a sample, where there is nothing to pad.
How to fix it
    Mask less; give the loss a value to ignore that is no class.
When it stays silent
    Masked prompts and padding, as long as something is left; a batch of many whose gradients are added up.
Cost
    A look at the target in a few recorded steps.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from whence.finding import Finding, Operand, Severity
from whence.ledgers.study import Study
from whence.lineage.properties import Shows
from whence.lineage.trail import trace
from whence.rules.loss.probabilities import argument
from whence.rules.operations import CLASS_LOSSES
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import describe, spot_at, tell_silent
from whence.tape.tape import Call, Value

IGNORED = -100


@study_rule("data/labels-masked", Rank.CAUSE)
def labels_masked(study: Study) -> Finding | None:
    for loss, call in study.loss_calls():
        if call.name not in CLASS_LOSSES or (loss.number is not None and not math.isfinite(loss.number)):
            # A mean over nothing is NaN: that is told where it is born.
            continue
        given, target = argument(call, 0, "input"), argument(call, 1, "target")
        labels = study.content(target) if target is not None else None
        if given is None or target is None or labels is None or labels.is_floating_point() or not labels.numel():
            continue
        ignored = _ignored(call)
        share = float((labels == ignored).float().mean())
        classes = given.shape[1] if len(given.shape) > 1 else 0
        if share == 1.0 and not _learns(study):
            trail = trace(target, Shows(partial(_is_all, ignored), study.tape), study)
            return tell_silent(
                study,
                "data/labels-masked",
                spot=trail.spot,
                symptom=spot_at(call.site),
                step=study.step,
                op=trail.op,
                phase=trail.phase,
                verdict=f"every label of this batch is {ignored}, which {call.name} ignores",
                what="the loss is a mean over no labels",
                why="What equals ignore_index takes no part in the loss. Nothing is left.",
                fix="Look at the line that masks: leave at least the answer in.",
                chain=trail.hops,
                operands=(Operand("labels", describe(labels)),),
            )
        if labels.dim() == 1 and 0 <= ignored < classes and share > 0.02 and _one_a_sample(target):
            return tell_silent(
                study,
                "data/labels-masked",
                spot=spot_at(call.site),
                symptom=spot_at(loss.call.site),
                step=study.step,
                call=call,
                severity=Severity.WARNING,
                verdict=f"{call.name} ignores class {ignored}, one of {classes}: {share:.0%} of the labels",
                what="samples of this class are never learnt from",
                why="There is one label for each sample, so that there is nothing to pad: the value to ignore is a class.",
                fix="Take ignore_index away, or give it a value that is no class.",
            )
    return None


def _learns(study: Study) -> bool:
    """Something else gives the step a gradient: other losses, or the other batches that it is accumulated from."""
    weights = [each for group in study.optimizer.param_groups for each in group["params"]]
    return any(each.grad is not None and not each.grad.is_sparse and bool(each.grad.any()) for each in weights)


def _ignored(call: Call) -> int:
    return int(call.kwargs.get("ignore_index", IGNORED))


def _one_a_sample(target: Value) -> bool:
    """The labels came so from the loader, and were not flattened from sequences."""
    made = target.call
    return target.leaf is not None or made is None or made.name not in ("view", "reshape", "flatten", "__getitem__")


def _is_all(ignored: int, thing: Any) -> bool:
    return bool(tuple(getattr(thing, "shape", ()))) and bool((thing == ignored).all())
