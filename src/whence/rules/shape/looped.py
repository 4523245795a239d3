"""A hand-written loop over the samples of a batch that carries state from one to the next."""

from __future__ import annotations

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Study
from whence.lineage.ancestry import ancestors
from whence.rules.footprints import is_chain
from whence.rules.shape.samples import is_unordered
from whence.rules.telling import shape_text, silent_finding, spot_at
from whence.source.spots import Spot
from whence.tape.tape import Call

CUMULATES = frozenset({"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"})
SORTS = frozenset({"sort", "argsort", "topk", "msort"})
UNSTACKS = frozenset({"unbind", "__iter__", "__getitem__", "select"})


def loop_over_samples(study: Study) -> Finding | None:
    """Results computed sample by sample are stacked, and each depends on those before it."""
    for loss, call in study.loss_calls():
        rows = len(call.operands)
        if (
            call.name not in ("stack", "cat")
            or call.inner
            or rows < 3
            or not call.outputs
            or call.site is None
        ):
            continue
        made = call.outputs[0]
        if made.shape[:1] != (rows,) or len(made.shape) < 3 or not made.requires_grad:
            continue
        taken = _unstacked(call, rows)
        if taken is None or taken.site is None or not is_chain(study, rows, made):
            continue
        given = taken.operands[0].shape
        return silent_finding(
            study,
            "shape/batch-first",
            spot=Spot.of_site(taken.site),
            symptom=spot_at(loss.call.site),
            call=taken,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"the loop iterates over the batch: {shape_text(given)} is read as {rows} "
            f"steps of {given[1]} samples",
            what="the result of each sample depends on the samples before it",
            why="Iterating over a tensor follows its first axis, here the batch. The carried state "
            "passes from sample to sample instead of from time step to time step.",
            fix="Iterate over time: for x_t in x.unbind(1), with one state row per sample, then "
            "stack(..., dim=1).",
            replay="bit-identical",
            counterfactual="replacing the first sample changes the results of all samples; "
            "replacing the last changes only its own",
        )
    return None


def cumulative_over_samples(study: Study) -> Finding | None:
    """`cumprod(..., dim=0)` over unordered samples that have another axis it may be meant for."""
    for loss, call in study.loss_calls():
        given = call.operands[0] if call.operands else None
        if (
            call.name not in CUMULATES
            or call.inner
            or given is None
            or len(given.shape) < 2
            or call.site is None
        ):
            continue
        axis = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else None)
        others = [place for place, size in enumerate(given.shape) if place and size > 1]
        if (
            axis not in (0, -len(given.shape))
            or given.shape[0] < 3
            or not others
            or not is_unordered(given)
        ):
            continue
        if any(each.name in SORTS for each in study.path(given)) or not is_chain(
            study, given.shape[0], call.results[0]
        ):
            continue
        return silent_finding(
            study,
            "shape/batch-first",
            spot=Spot.of_site(call.site),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            # Mixture-of-experts queues and sorted risk sets accumulate over samples on purpose.
            severity=Severity.INFO,
            confidence=Confidence.LIKELY,
            verdict=f"{call.name} runs over the batch: dim=0 of {shape_text(given.shape)}",
            what="the result of each sample depends on the samples before it",
            why="The samples of a batch have no fixed order, so a cumulative result over the batch "
            "axis differs in every epoch.",
            fix="Use the time axis: "
            + " or ".join(f"dim={each}, of size {given.shape[each]}" for each in others)
            + ".",
            replay="bit-identical",
            counterfactual="replacing the first sample changes the results of all samples; "
            "replacing the last changes only its own",
        )
    return None


def _unstacked(joined: Call, rows: int) -> Call | None:
    """The nearest tensor of samples, each with its own steps, from which the parts were taken."""
    for call in ancestors(joined.outputs[0]):
        given = call.operands[0] if call.operands else None
        if (
            call.name not in UNSTACKS
            or given is None
            or len(given.shape) < 3
            or given.shape[0] != rows
        ):
            continue
        is_one = call.outputs and len(call.outputs[0].shape) == len(given.shape) - 1
        if is_one and given.shape[1] > 1 and is_unordered(given):
            return call
    return None
