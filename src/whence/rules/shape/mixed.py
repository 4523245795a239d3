"""A reshape whose rows mix several samples, although the sizes fit."""

from __future__ import annotations

from functools import partial

import torch

from whence.finding import Finding, Severity
from whence.ledgers.study import Loss, Study
from whence.lineage.dependence import part_at, reach
from whence.rules.footprints import places_of
from whence.rules.operations import DISTANCES, LOSSES, RESHAPES
from whence.rules.shape.permuting import moved_first
from whence.rules.shape.samples import first_is_batch
from whence.rules.source_operands import is_written
from whence.rules.telling import shape_text, silent_finding, spot_at
from whence.source.spots import Spot
from whence.tape.replay import Run
from whence.tape.tape import Call, Value


def samples_mixed(study: Study) -> Finding | None:
    """The samples are not on the first axis, and a reshape makes as many rows that mix them."""
    for loss, call in study.loss_calls():
        if (
            call.name not in RESHAPES
            or call.inner
            or call.site is None
            or not is_written(call)
            or not call.outputs
        ):
            continue
        before, after = call.operands[0].shape, call.outputs[0].shape
        rows = after[0] if after else 0
        if (
            rows < 2
            or before[:1] == (rows,)
            or before[1:2] != (rows,)
            or not call.outputs[0].requires_grad
        ):
            continue
        source = _source(study, call.operands[0], rows)
        others = _others(study, call, source) if source is not None else None
        if others is None:
            continue
        return silent_finding(
            study,
            "shape/reshape-as-permute",
            spot=Spot.of_site(call.site),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            verdict=f"{call.name} {shape_text(before)} -> {shape_text(after)} mixes samples: the "
            f"last row comes from {'sample' if len(others) == 1 else 'samples'} "
            f"{', '.join(map(str, others[:3]))}{', ...' if len(others) > 3 else ''}",
            what="rows that mix several samples are used as samples",
            why="The samples are on axis 1 of the input. A reshape keeps the elements in memory "
            "order; only permute and transpose swap axes.",
            fix="Move the samples to the front first: .transpose(0, 1), then reshape.",
            patch=moved_first(call.site, "transpose(0, 1)"),
            replay="bit-identical",
            counterfactual="the last row has nonzero gradients at other samples; "
            "before the reshape it has none",
        )
    return None


def joined_samples_mixed(study: Study) -> Finding | None:
    """Samples were concatenated, 9 nodes each; (288, 16) -> (9, 32, 16) splits them wrongly."""
    for loss, call in study.loss_calls():
        if (
            call.name not in RESHAPES
            or call.inner
            or call.site is None
            or not is_written(call)
            or not call.outputs
        ):
            continue
        given, made = call.operands[0], call.outputs[0]
        if (
            len(made.shape) != len(given.shape) + 1
            or made.shape[0] * made.shape[1] != given.shape[0]
            or not made.requires_grad
        ):
            continue
        end = _compared(study, loss, made.shape[:2])
        if end is None or ("joined", call.stack) in study.asked:
            continue
        study.asked.add(("joined", call.stack))
        rows = end.shape[0]
        last = [[rows - 1], [0]]
        found = places_of(study, rows, end)
        if not found or found == last or places_of(study, rows, end, partial(_split, call)) != last:
            continue
        others = found[0]
        return silent_finding(
            study,
            "shape/reshape-as-permute",
            spot=Spot.of_site(call.site),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            verdict=f"{call.name} {shape_text(given.shape)} -> {shape_text(made.shape)} mixes "
            f"samples: the last one affects {len(others)} of {rows} predictions",
            what="each prediction is made from several samples and compared with one sample's "
            "target",
            why=f"The {rows} samples are concatenated, {given.shape[0] // rows} rows each. A "
            "reshape keeps memory order, so only the first of two new axes can be the samples.",
            fix=f"Make the samples the first axis, ({rows}, {given.shape[0] // rows}, ...), and "
            "use the second axis for the rows of a sample.",
            replay="bit-identical",
            counterfactual="with the samples on the first axis, then transposed, each prediction "
            "depends on its own sample only",
        )
    return None


def _compared(study: Study, loss: Loss, sizes: tuple[int, ...]) -> Value | None:
    """The prediction compared with targets, if its rows are one of these sizes and a batch's."""
    batches = {len(batch.indices) for batch, _ in study.now.deliveries if batch.indices is not None}
    for call in reversed(study.path(loss.value)):
        learnt = next((each for each in call.operands[:2] if each.requires_grad), None)
        if (
            call.name in LOSSES | DISTANCES
            and learnt is not None
            and learnt.shape[:1]
            and not call.inner
        ):
            return learnt if learnt.shape[0] in batches.intersection(sizes) else None
    return None


def _split(reshape: Call, call: Call, run: Run) -> None:
    """The reshape's result with the samples on the first axis, then transposed."""
    if call is not reshape or reshape.operands[0] not in run.contents:
        return
    first, second, *rest = reshape.outputs[0].shape
    samples = run.contents[reshape.operands[0]].reshape(second, first, *rest)
    run.contents[reshape.outputs[0]] = samples.transpose(0, 1)


def _source(study: Study, value: Value, rows: int) -> Value | None:
    """The samples, or their embeddings, in batch order."""
    for call in study.path(value):
        data = [
            each for each in call.operands if not each.requires_grad and each.shape[:1] == (rows,)
        ]
        known = next((each for each in data if first_is_batch(each)), None)
        made = call.outputs[0] if call.outputs else None
        if known is not None and known.dtype.is_floating_point:
            return known
        if (
            known is not None
            and made is not None
            and made.requires_grad
            and made.shape[:1] == (rows,)
        ):
            return made
    return None


def _others(study: Study, call: Call, source: Value) -> list[int] | None:
    """The samples in the last row, if it is not only the last one although each was separate."""
    given, made = call.operands[0], call.outputs[0]
    run = study.again(made, given, source, gradients=True, towards={source})
    if run is None:
        return None
    last = made.shape[0] - 1
    after = _samples(run, made, {0: last}, source)
    return (
        after
        if after not in ([last], []) and _samples(run, given, {1: last}, source) == [last]
        else None
    )


def _samples(run: Run, value: Value, place: dict[int, int], source: Value) -> list[int]:
    size = reach(run, value, part_at(place, len(value.shape)), source)
    return torch.nonzero(size.flatten(1).amax(1)).flatten().tolist() if size is not None else []
