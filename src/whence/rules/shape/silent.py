"""Shapes that fit but mean something else."""

from __future__ import annotations

from whence.finding import Finding, Severity
from whence.ledgers.study import Study
from whence.lineage.dependence import reach
from whence.rules.operations import RESHAPES
from whence.rules.rule import Rank, study_rule
from whence.rules.shape.batch import named_axis_patch, size_from_batch_patch
from whence.rules.shape.looped import cumulative_over_samples, loop_over_samples
from whence.rules.shape.recurrent import batch_first_patch
from whence.rules.shape.samples import first_is_batch
from whence.rules.source_operands import is_written
from whence.rules.telling import place_of, shape_text, silent_finding
from whence.source.spots import Spot
from whence.tape.operations import OVER_TIME
from whence.tape.tape import Call, Value

ATTENDS = frozenset({"multi_head_attention_forward", "_transformer_encoder_layer_fwd"})


@study_rule("shape/hardcoded-batch", Rank.CAUSE)
def hardcoded_batch(study: Study) -> Finding | None:
    """The silent form: a batch of another size is reshaped to the usual number of rows."""
    for _, call in study.loss_calls():
        if call.name not in RESHAPES or not call.operands or not call.outputs or call.site is None:
            continue
        if not _is_own(call):
            continue
        before, after = call.operands[0].shape, call.outputs[0].shape
        earlier = study.tape.earlier_at(call)
        if (
            not before
            or not after
            or earlier is None
            or not earlier.operands
            or before[0] == after[0]
        ):
            continue
        if _takes_many_sizes(study, call):
            continue
        used, gave = earlier.operands[0].shape, earlier.outputs[0].shape
        if used[:1] == gave[:1] == after[:1] and used[1:] == before[1:] and before[0] != used[0]:
            return silent_finding(
                study,
                "shape/hardcoded-batch",
                spot=Spot.of_site(call.site),
                call=call,
                step=study.step,
                severity=Severity.WARNING,
                verdict=f"{call.name} makes {after[0]} rows from a batch of {before[0]}: "
                f"{shape_text(before)} -> {shape_text(after)}",
                what=f"in earlier steps the batch size was {used[0]}, and each row was a sample",
                why=f"The number of rows, {after[0]}, is fixed. The elements of this batch happen "
                "to divide into that many rows, which no longer correspond to samples.",
                fix="Take the size from the tensor: x.view(x.size(0), -1), or x.flatten(1).",
                patch=size_from_batch_patch(Spot.of_site(call.site), call),
            )
    return None


def _takes_many_sizes(study: Study, call: Call) -> bool:
    """Whether one step passes several sizes through this line, so that none is the batch size."""
    sizes: dict[int, tuple[int, ...]] = {call.step: call.operands[0].shape}
    for each in study.tape.all_earlier_at(call):
        if (
            each.operands
            and sizes.setdefault(each.step, each.operands[0].shape) != each.operands[0].shape
        ):
            return True
    return False


@study_rule("shape/squeezed-batch", Rank.CAUSE)
def squeezed_batch(study: Study) -> Finding | None:
    """The silent form: squeeze removed the axis of a batch of one, and later calls broadcast."""
    for call in study.calls:
        if call.name != "squeeze" or not call.operands or not call.outputs or call.site is None:
            continue
        if len(call.args) > 1 or "dim" in call.kwargs or not _is_own(call):
            continue
        before, after = call.operands[0].shape, call.outputs[0].shape
        earlier = study.tape.earlier_at(call)
        if earlier is None or not earlier.operands or before[:1] != (1,) or len(before) < 2:
            continue
        used, gave = earlier.operands[0].shape, earlier.outputs[0].shape
        if (
            used[:1] != (1,)
            and gave[:1] == used[:1]
            and len(after) < len(gave)
            and used[1:] == before[1:]
        ):
            return silent_finding(
                study,
                "shape/squeezed-batch",
                spot=Spot.of_site(call.site),
                call=call,
                step=study.step,
                severity=Severity.WARNING,
                verdict="squeeze removed the batch axis of a batch of one: "
                f"{shape_text(before)} -> {shape_text(after)}",
                what=f"in earlier steps the result was {shape_text(gave)}",
                why="Without a dim, squeeze removes every axis of size 1, including the batch "
                "axis.",
                fix="Name the axis to remove: squeeze(1) or squeeze(-1).",
                patch=named_axis_patch(Spot.of_site(call.site), call.operands[0]),
            )
    return None


def _is_own(call: Call) -> bool:
    """Whether the program's own line makes the call; a library runs many calls under one line."""
    return not call.inner and is_written(call)


@study_rule("shape/unbatched", Rank.CAUSE)
def unbatched(study: Study) -> Finding | None:
    """The silent form: rows of a batch are read as the steps of one sequence."""
    found = _mixing(study, axes=2)
    if found is None:
        return None
    call, given = found
    return silent_finding(
        study,
        "shape/unbatched",
        spot=Spot.of_site(call.site) if call.site is not None else None,
        call=call,
        step=study.step,
        verdict=f"{_kind(call)} reads a batch of {given.shape[0]} samples as one sequence of "
        f"{given.shape[0]} steps",
        what="the result of each sample depends on the samples before it"
        if call.name in OVER_TIME
        else "the result of each sample depends on other samples",
        why=f"The input is {shape_text(given.shape)}, without a time axis. With two axes, the "
        "first is read as time.",
        fix="Give each sample its own sequence: unsqueeze(1) makes each row a sequence of one "
        "step.",
        replay="bit-identical",
        counterfactual="the result of the last sample has nonzero gradients at the other samples",
    )


@study_rule("shape/batch-first")
def batch_first(study: Study) -> Finding | None:
    """The silent form: batch and time are swapped, and the layer runs along the batch."""
    found = _mixing(study, axes=3)
    if found is None:
        return loop_over_samples(study) or cumulative_over_samples(study)
    call, given = found
    layer = study.layer_of(call)
    stack = study.modules.built_at(layer) if layer is not None else ()
    return silent_finding(
        study,
        "shape/batch-first",
        spot=Spot.of_site(stack[0]) if stack else place_of(call, study),
        symptom=Spot.of_site(call.site) if call.site is not None else None,
        call=call,
        step=study.step,
        verdict=f"{_kind(call)} runs along the batch: {shape_text(given.shape)} is read as "
        f"{given.shape[0]} steps of {given.shape[1]} samples",
        what="the result of each sample depends on the samples before it"
        if call.name in OVER_TIME
        else "the result of each sample depends on other samples",
        why="Without batch_first=True, the first axis is time and the second the batch.",
        fix="Build the layer with batch_first=True, or pass the input as (time, batch, features).",
        patch=batch_first_patch(Spot.of_site(stack[0])) if stack else None,
        replay="bit-identical",
        counterfactual="the result of the last sample has nonzero gradients at the other samples",
    )


def _kind(call: Call) -> str:
    return {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}.get(
        call.name, "attention"
    )


def _mixing(study: Study, axes: int) -> tuple[Call, Value] | None:
    """A recurrent or attention call along the batch, for inputs with so many axes."""
    for _, call in study.loss_calls():
        if call.name not in OVER_TIME | ATTENDS or not call.operands or not call.outputs:
            continue
        given = call.operands[0]
        written = _written(given)
        rows = written.shape[0] if written.shape else 0
        if (
            len(written.shape) != axes
            or rows < 2
            or rows not in given.shape
            or not first_is_batch(written)
        ):
            continue
        if _runs_along(study, call, given.shape.index(rows)):
            return call, written
    return None


def _written(given: Value) -> Value:
    """The program's input: a recurrent layer adds the axis that a single sequence lacks."""
    call = given.call
    return (
        call.operands[0]
        if call is not None and call.name == "unsqueeze" and len(given.shape) == 3
        else given
    )


def _runs_along(study: Study, call: Call, axis: int) -> bool:
    """Replay the call with gradients: does the last position on an axis depend on the others?"""
    given = call.operands[0]
    made = next(
        (
            each
            for each in call.outputs
            if len(each.shape) > axis and each.shape[axis] == given.shape[axis]
        ),
        None,
    )
    again = study.again(made, given, gradients=True, towards={given}) if made is not None else None
    if again is None or made is None:
        return False
    last = tuple(slice(-1, None) if each == axis else slice(None) for each in range(axis + 1))
    size = reach(again, made, last, given)
    if size is None:
        return False
    others = size.narrow(axis, 0, size.shape[axis] - 1)
    return bool(others.numel()) and float(others.max()) > 1e-12 * max(1.0, float(size.max()))
