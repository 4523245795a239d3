"""A loop written by hand that goes along the samples of a batch, and carries something from one to the next."""

from __future__ import annotations

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Study
from whence.lineage.ancestry import ancestors
from whence.rules.footprints import is_chain
from whence.rules.shape.samples import comes_in_no_order
from whence.rules.telling import shape_text, spot_at, tell_silent
from whence.source.spots import Spot
from whence.tape.tape import Call

CUMULATES = frozenset({"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"})
SORTS = frozenset({"sort", "argsort", "topk", "msort"})
TAKES_APART = frozenset({"unbind", "__iter__", "__getitem__", "select"})


def loop_over_samples(study: Study) -> Finding | None:
    """What was computed for one sample after the other is put together again, and each depends on those before it."""
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
        taken = _taken_apart(call, rows)
        if taken is None or taken.site is None or not is_chain(study, rows, made):
            continue
        given = taken.operands[0].shape
        return tell_silent(
            study,
            "shape/batch-first",
            spot=Spot.of_site(taken.site),
            symptom=spot_at(loss.call.site),
            call=taken,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"the loop runs over the batch: it takes {shape_text(given)} for {rows} steps of {given[1]} samples",
            what="what it gives for one sample depends on the samples before it",
            why="A loop over a tensor goes along its first axis, and that is the batch here: what it carries on goes from sample to "
            "sample, and not from step to step.",
            fix="Go along the axis of time: for x_t in x.unbind(1), a state with a row for each sample, and stack(..., dim=1).",
            replay="bit-identical",
            counterfactual="with another first sample the results of all samples change; with another last one only its own does",
        )
    return None


def added_up_over_samples(study: Study) -> Finding | None:
    """`cumprod(..., dim=0)` of samples in no order, each of which has an axis of its own that could be meant."""
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
            or not comes_in_no_order(given)
        ):
            continue
        if any(each.name in SORTS for each in study.path(given)) or not is_chain(
            study, given.shape[0], call.results[0]
        ):
            continue
        return tell_silent(
            study,
            "shape/batch-first",
            spot=Spot.of_site(call.site),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            # Places in a queue (experts), and sets at risk that came sorted, are added up so on purpose.
            severity=Severity.INFO,
            confidence=Confidence.LIKELY,
            verdict=f"{call.name} runs over the batch: dim=0 of {shape_text(given.shape)}",
            what="what it gives for one sample depends on the samples before it",
            why="The samples of a batch come in no order: what is added up from one to the next is a different thing in each epoch.",
            fix="Use the axis of time: "
            + " or ".join(f"dim={each}, of size {given.shape[each]}" for each in others)
            + ".",
            replay="bit-identical",
            counterfactual="with another first sample the results of all samples change; with another last one only its own does",
        )
    return None


def _taken_apart(joined: Call, rows: int) -> Call | None:
    """The nearest tensor of samples, each with steps of its own, that parts of what is joined were taken from."""
    for call in ancestors(joined.outputs[0]):
        given = call.operands[0] if call.operands else None
        if (
            call.name not in TAKES_APART
            or given is None
            or len(given.shape) < 3
            or given.shape[0] != rows
        ):
            continue
        is_one = call.outputs and len(call.outputs[0].shape) == len(given.shape) - 1
        if is_one and given.shape[1] > 1 and comes_in_no_order(given):
            return call
    return None
