"""A reshape used where axes had to be permuted."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.study import Study
from whence.lineage.ancestry import ancestors
from whence.lineage.arrays import Reshape, reshapes_of_program, seen_before
from whence.lineage.properties import HasAxis
from whence.lineage.trail import trace
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.operations import CONVOLUTIONS, RESHAPES
from whence.rules.rule import audit_rule, study_rule
from whence.rules.shape.mixed import joined_samples_mixed, samples_mixed
from whence.rules.shape.permuting import moved_first, permuted
from whence.rules.shape.pieces import pieces_across_rows
from whence.rules.telling import shape_text, silent_finding, spot_at
from whence.source.spots import Spot
from whence.tape.batches import leaves_of
from whence.tape.tape import Call, Foreign, Value, flatten

Shape = tuple[int, ...]
MOST_KEPT = 16
PATIENCE = 5.0
RULE = "shape/reshape-as-permute"
WHAT = "elements of different positions are grouped together"
WHY = (
    "A reshape keeps the elements in memory order and only regroups them. Axes change places with "
    "permute or transpose."
)
FIX = "Use reshape only to split or merge adjacent axes, and permute or transpose to reorder them."


@study_rule("shape/reshape-as-permute")
def reshape_as_permute(study: Study) -> Finding | None:
    """view/reshape was used where axes had to be permuted.

    What happened
        A reshape gave a tensor or an array the shape that a permutation would have given it. It
        does not move elements, so values of different positions, channels or samples are mixed.
    Why it matters
        Nothing raises. The model trains on scrambled data, worse or not at all.
    How it is detected
        The sizes before and after each reshape that the loss depends on, including reshapes of a
        dataset's tensors and samples. An axis moves past others, which a reshape cannot do; or a
        convolution's channels should become the last axis and do not fit into a row. For an array
        that becomes a tensor, its sizes are compared with those of the array it is a view of.
        Pieces of an image with the number and size of patches, cut across its rows and read by a
        linear layer, are found too. If sizes alone do not show it, the step is replayed: rows mix
        samples that were separate before. NumPy reshapes of a sample, or before training, are seen
        by running those lines again in a child process.
    How to fix it
        permute or transpose first, then reshape.
    When it stays silent
        Axes that are only split or only merged, axes of size 1, equal sizes that could be either,
        reshapes that undo one another, rows shifted by one against each other (9, 8 from 8, 9), as
        in relative attention.
    Cost
        A comparison of sizes for each reshape of a few recorded steps. One child process if the
        program reshapes outside of them.
    """
    for call in _candidates(study):
        shapes = _reshaped(call)
        straddling = _straddling(call) if shapes is not None and call.name in RESHAPES else None
        crossed = crossed_axis(*shapes) or straddling if shapes is not None else None
        if shapes is None or crossed is None or call.site is None or call.forgotten:
            continue
        is_array = call.name not in RESHAPES
        return silent_finding(
            study,
            "shape/reshape-as-permute",
            spot=_in_numpy(study, call, crossed) if is_array else Spot.of_site(call.site),
            symptom=Spot.of_site(study.losses[0].call.site)
            if study.losses[0].call.site is not None
            else None,
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=_verdict("reshape" if is_array else call.name, *shapes, crossed)
            if straddling is None
            else f"{call.name} {shape_text(shapes[0])} -> {shape_text(shapes[1])} reads {crossed} "
            "values of an image row as channels",
            what=WHAT,
            why=WHY,
            fix=FIX,
            patch=None
            if is_array
            else permuted(call.site, *shapes)
            if straddling is None
            else moved_first(call.site, "permute(0, 2, 3, 1)"),
        )
    return (
        samples_mixed(study)
        or joined_samples_mixed(study)
        or pieces_across_rows(study)
        or _before_training(study)
    )


def _before_training(study: Study) -> Finding | None:
    """NumPy reshapes before training, seen by running those lines again, once."""
    if study.asked & {RULE} or not study.losses:
        return None
    study.asked.add(RULE)
    known = {
        (each.site.filename, each.site.f_lineno)
        for each in study.tape.calls
        if each.site is not None
    }
    wanted = [
        (file, each) for file, each in reshapes_of_program() if not known & set(_lines(file, each))
    ]
    try:
        found = (
            run_in_child(
                lambda: seen_before(wanted, study.frames).reshapes, PATIENCE, need=Need.PREPARATION
            )
            if wanted
            else []
        )
    except NotPossible:
        return None
    given = {_sizes(each.shape[1:]) for each in _given(study)}
    used = [
        each
        for each in found
        if any(size and size == _sizes(each.after)[-len(size) :] for size in given)
    ]
    return _report_arrays(study, used, spot_at(study.losses[0].call.site))


def _given(study: Study) -> Iterator[torch.Tensor]:
    """The inputs of this step: the tensors of its batches, or the arguments of its models."""
    for _, data in study.now.deliveries:
        yield from (each for _, each in leaves_of(data) if isinstance(each, torch.Tensor))
    yield from (each for entry in study.now.entries for each in entry if each is not None)


def _sizes(shape: tuple[int, ...]) -> Shape:
    return tuple(each for each in shape if each != 1)


def _lines(filename: str, statement: ast.stmt) -> Iterator[tuple[str, int]]:
    last = statement.end_lineno or statement.lineno
    return ((filename, line) for line in range(statement.lineno, last + 1))


@audit_rule("shape/reshape-as-permute")
def reshaped_in_samples(audit: Audit) -> Finding | None:
    """NumPy reshapes in the dataset, in this process or in workers."""
    for entry in audit.batches.trained() if RULE not in audit.told else ():
        habits = audit.habits_of(entry)
        found = (
            _report_arrays(audit, habits.reshapes, entry.info.built) if habits is not None else None
        )
        if found is not None:
            return found
    return None


def _report_arrays(
    facts: Study | Audit, reshapes: list[Reshape], symptom: Spot | None
) -> Finding | None:
    for number, each in enumerate(reshapes):
        crossed = crossed_axis(each.before, each.after)
        is_undone = any(later.after == each.before for later in reshapes[number + 1 :])
        if (
            crossed is None
            or is_undone
            or any(earlier.before == each.after for earlier in reshapes[:number])
        ):
            continue
        return silent_finding(
            facts,
            RULE,
            spot=each.spot,
            symptom=symptom,
            op="reshape",
            step=facts.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=_verdict("reshape", each.before, each.after, crossed),
            what=WHAT,
            why=WHY,
            fix=FIX,
        )
    return None


def _verdict(name: str, before: Shape, after: Shape, crossed: int) -> str:
    return (
        f"{name} {shape_text(before)} -> {shape_text(after)} moves the axis of size {crossed}, "
        "which needs permute"
    )


def _candidates(study: Study) -> Iterator[Call]:
    """The calls a loss depends on: of the step, of its samples, of its datasets' tensors."""
    losses = (each for loss in study.losses for each in ancestors(loss.value))
    samples = (each for each in study.calls if each.phase == "data") if study.losses else ()
    kept = (study.tape.known_value(each) for each in _kept(study)) if study.losses else ()
    return chain(
        losses, samples, (each for value in kept if value is not None for each in ancestors(value))
    )


def _kept(study: Study) -> Iterator[torch.Tensor]:
    """The tensors that the datasets of this step's batches hold."""
    for batch, _ in study.now.deliveries:
        dataset: Any = batch.info.dataset
        while hasattr(dataset, "dataset"):
            dataset = dataset.dataset
        held = list(vars(dataset).values())[:MOST_KEPT] if hasattr(dataset, "__dict__") else []
        yield from (each for each in flatten(held) if isinstance(each, torch.Tensor))


def _reshaped(call: Call) -> tuple[Shape, Shape] | None:
    """The shapes before and after a run of reshapes that ends with this call."""
    if not call.outputs:
        return None
    if call.name not in RESHAPES:
        arrays = [each for each in flatten(call.args) if isinstance(each, Foreign) and each.base]
        return (
            (arrays[0].base, call.outputs[0].shape)
            if len(arrays) == 1 and not call.operands
            else None
        )
    value: Value | None = call.operands[0] if call.operands else None
    while (
        value is not None
        and value.call is not None
        and value.call.name in RESHAPES
        and value.call.operands
    ):
        value = value.call.operands[0]
    if value is None or not _has_structure(value):
        return None
    made = _reshaped(value.call) if value.call is not None and not value.call.operands else None
    before, after = made[0] if made is not None else value.shape, call.outputs[0].shape
    # The last reshape of the run must be wrong on its own, too.
    is_wrong = (
        crossed_axis(call.operands[0].shape, after) is not None or _straddling(call) is not None
    )
    return (before, after) if is_wrong else None


def _in_numpy(study: Study, call: Call, crossed: int) -> Spot | None:
    """The line that gave an array its shape before it became a tensor."""
    value = call.outputs[0]
    axis = value.shape.index(crossed) - len(value.shape)
    return trace(value, HasAxis(axis, crossed), study).spot or (
        Spot.of_site(call.site) if call.site is not None else None
    )


def crossed_axis(before: Shape, after: Shape) -> int | None:
    """An axis that moves past others, where a reshape does more than split and merge neighbours."""
    old, new = [each for each in before if each != 1], [each for each in after if each != 1]
    if old == new or len(old) + len(new) < 5:
        return None
    for left, right in _groups(old, new):
        if len(left) > 1 and len(right) > 1 and not _shifts_rows(left, right):
            # If two axes have its size afterwards, neither may be at its old place.
            shared = [size for size in left if size in right and left.count(size) == 1]
            moved = [
                size for size in shared if not set(_places(left, size)) & set(_places(right, size))
            ]
            if moved and (
                len(shared) >= min(len(left), len(right)) - 1 or sorted(left) == sorted(right)
            ):
                return moved[0]
    return None


def _shifts_rows(left: list[int], right: list[int]) -> bool:
    """(8, 9) -> (9, 8): each row shifts by one, as in relative attention."""
    return len(left) == 2 and left == right[::-1] and abs(left[0] - left[1]) == 1


def _straddling(call: Call) -> int | None:
    """The last axis that a reshape gives to a convolution's output, if channels were meant.

    The channels divide by it and the image rows do not, so a group starts in one row and ends in
    the next.
    """
    value = call.operands[0]
    before, after = value.shape, call.outputs[0].shape
    if (
        value.call is None
        or value.call.name not in CONVOLUTIONS
        or len(before) != 4
        or len(after) < 3
    ):
        return None
    last, row = after[-1], before[-1]
    if after[0] != before[0] or last < 2 or row < 2 or before[1] % last:
        return None
    return last if last % row and row % last else None


def _groups(old: list[int], new: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The smallest runs of neighbouring axes with the same number of elements before and after."""
    i = j = 0
    while i < len(old) and j < len(new):
        left, right = [old[i]], [new[j]]
        i, j = i + 1, j + 1
        one, other = left[0], right[0]
        while one != other:
            if one < other and i < len(old):
                left.append(old[i])
                one, i = one * old[i], i + 1
            elif one > other and j < len(new):
                right.append(new[j])
                other, j = other * new[j], j + 1
            else:
                return
        yield left, right


def _places(sizes: list[int], size: int) -> Iterator[tuple[int, int]]:
    """The numbers of elements before and after each axis of a size."""
    for at, each in enumerate(sizes):
        if each == size:
            yield math.prod(sizes[:at]), math.prod(sizes[at + 1 :])


def _has_structure(value: Value) -> bool:
    """Whether a value has an order to lose; random or constant values have none."""
    call = value.call
    return call is None or not (
        call.name.startswith("rand") or call.name in ("zeros", "ones", "empty", "full", "arange")
    )
